Feature: Knowing how full the window is
  Every prompt is counted by the model's own tokenizer before and after the other stages; what cannot fit with its answer is refused
  before the provider would.

  Background:
    Given a model with a window of 8192 tokens
    And a policy that warns at 70%, asks for compression at 80% and is critical at 90%

  Scenario: Counting as the provider does
    Given the conversation of OpenAI's cookbook
      | role   | name              | content                                                                                              |
      | system |                   | You are a helpful, pattern-following assistant that translates corporate jargon into plain English. |
      | system | example_user      | New synergies will help drive top-line growth.                                                       |
      | system | example_assistant | Things working well together will increase revenue.                                                  |
      | system | example_user      | Let's circle back when we have more bandwidth to touch base on opportunities for increased leverage. |
      | system | example_assistant | Let's talk later when we're less busy about how to do better.                                        |
      | user   |                   | This late pivot means we don't have time to boil the ocean for the client deliverable.               |
    When it is sent
    Then it is counted as exactly 124 tokens
    And the components add up to it
    And the response's header is "124/8192;exact"

  Scenario Outline: Room for the answer
    Given a prompt of <used> tokens
    And the client asks for an answer of 500 tokens
    When it is sent
    Then it is <outcome>

    Examples:
      | used | outcome  |
      | 7000 | accepted |
      | 7692 | accepted |
      | 7693 | refused  |
      | 7900 | refused  |

  Scenario: A refusal says what would help
    Given a prompt of 7900 tokens
    And the client asks for an answer of 500 tokens
    When it is sent
    Then it is refused
    And the error names the 8192, 7900 and 500 tokens and advises to compress or to split
    And the refusal is counted

  Scenario Outline: Each component has its allocation
    Given allocations of 1000 tokens for the system message, 4000 for the history and 600 for the question
    And a prompt with <system> tokens of system message, <history> of history and <question> of question
    When it is sent
    Then over its allocation is: <over>

    Examples:
      | system | history | question | over                                    |
      | 1000   | 4000    | 600      | nothing                                 |
      | 1001   | 300     | 20       | system_instructions                     |
      | 200    | 4400    | 20       | conversation_history                    |
      | 1200   | 300     | 700      | system_instructions, current_query      |

  Scenario: Allocations that pass the window are refused when the policy is read
    Given allocations of 3000 tokens for the system message, 5000 for the history and 600 for the question
    Then the policy is refused because they add up to 8600 tokens

  Scenario Outline: The ladder
    Given a prompt at <percent>% of the window
    And the client asks for an answer of 500 tokens
    When it is sent
    Then the warning is "<warning>"
    And the counter that has risen is "<counter>"
    When the policy also compresses and it is sent again
    Then compression does <compression>

    Examples:
      | percent | warning                | counter                             | compression         |
      | 60      |                        |                                     | nothing             |
      | 72      | context_usage_high     | context.usage_warning_count         | nothing             |
      | 82      | context_usage_compress | context.compression_triggered_count | its work            |
      | 92      | context_usage_critical | context.critical_alerts_count       | its work, and hard  |
