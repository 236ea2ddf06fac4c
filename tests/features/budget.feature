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

  Scenario Outline: A text is counted by its model's own tokenizer
    Given the text "User prefers quality hotels near Eiffel Tower in Paris"
    Then "<model>" counts it as <tokens> tokens, a hundred times in less than a second

    Examples:
      | model  | tokens |
      | gpt-4  | 11     |
      | gpt-4o | 9      |

  Scenario Outline: Room for the answer
    Given a prompt of <used> tokens
    And the client asks for an answer of 500 tokens
    When it is sent
    Then it is <outcome>

    Examples:
      | used | outcome  |
      | 7000 | accepted |
      | 7500 | accepted |
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

  Scenario: A conversation over its allocation is compressed to fit, and the answer says so
    Given allocations of 1000 tokens for the system message, 2000 for the history and 600 for the question
    And a prompt with 800 tokens of system message, 4400 of history and 200 of question
    And the policy also compresses
    When it is sent
    Then "conversation_history" takes at most 2000 tokens of what is sent
    And the system message and the question are sent as they came
    And the warning is "allocation_compressed" for "conversation_history"
    And the response's compression header begins with "summarize;"
    When it is sent again with one more turn
    Then what was sent first begins what is sent now
    And the response's compression header begins with "stored;"

  Scenario: Tools over their allocation lose words, and no tool
    Given an allocation of 300 tokens for "tool_descriptions"
    And 6 tools whose descriptions take 900 tokens
    And the policy also compresses
    When it is sent
    Then "tool_descriptions" takes at most 300 tokens of what is sent
    And every tool is sent with its name and its parameters
    And the warning is "allocation_compressed" for "tool_descriptions"
    And the response's compression header begins with "shorten;"

  Scenario: Tools that no shortening brings to their allocation stay as they are
    Given an allocation of 20 tokens for "tool_descriptions"
    And 6 tools whose descriptions take 900 tokens
    And the policy also compresses
    When it is sent
    Then the tools are sent as they came
    And over its allocation is: tool_descriptions

  Scenario Outline: What the client remembers of the user is measured, wherever it stands
    Given an allocation of 60 tokens for "user_preferences"
    And the <place> says of the user 12 things that take 200 tokens
    When it is sent
    Then over its allocation is: user_preferences
    And the components add up to what is used

    Examples:
      | place                  |
      | system message         |
      | result of get_memories |
      | last question          |

  Scenario: Memories over their allocation keep their newest lines, and the model can read the rest
    Given an allocation of 100 tokens for "user_preferences"
    And the system message says of the user 12 things that take 200 tokens
    And the policy also compresses
    When it is sent
    Then "user_preferences" takes at most 100 tokens of what is sent
    And the newest thing is sent, and the oldest can be read back by a reference
    And the rest of the system message is sent as it came
    And the warning is "allocation_compressed" for "user_preferences"

  Scenario: Room for tools' results is kept free
    Given an allocation of 3692 tokens for "available_for_tools"
    And a prompt with 500 tokens of system message, 4300 of history and 200 of question
    And the policy also compresses
    When it is sent
    Then at least 3692 tokens of the window are left
    And the warning is "allocation_compressed" for "available_for_tools"

  Scenario Outline: What cannot be shortened is warned of
    Given allocations of 1000 tokens for the system message, 4000 for the history and 600 for the question
    And a prompt with <system> tokens of system message, 300 of history and <question> of question
    And the policy also compresses
    When it is sent
    Then over its allocation is: <over>
    And the system message and the question are sent as they came

    Examples:
      | system | question | over                |
      | 1200   | 20       | system_instructions |
      | 200    | 700      | current_query       |

  Scenario: The document's allocations are one policy
    Given allocations of 500, 300, 2000, 1500, 200 and 3692 tokens, in the document's order
    Then the policy is accepted in a window of 8192 tokens

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
