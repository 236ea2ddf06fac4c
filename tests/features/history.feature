Feature: A history so long that the model loses its thread
  A long history distracts a model well before it fills the window. Groundwire says so, and shortens the history where the policy
  says that it may.

  Background:
    Given a policy that watches over histories from 20 messages or 2000 tokens on

  Scenario Outline: How long is too long
    Given a history of <messages> messages and <tokens> tokens
    When it is sent
    Then the distraction is <severity>
    And the recommended action is <action>
    And the client's own messages are forwarded

    Examples:
      | messages | tokens | severity | action         |
      | 50       | 5000   | HIGH     | summarize      |
      | 41       | 820    | HIGH     | summarize      |
      | 31       | 620    | MEDIUM   | summarize      |
      | 30       | 600    | MEDIUM   | sliding_window |
      | 25       | 500    | MEDIUM   | sliding_window |
      | 20       | 400    | MEDIUM   | sliding_window |
      | 10       | 2500   | MEDIUM   | summarize      |

  Scenario: The alert says what is too long and what would help
    Given a history of 25 messages and 500 tokens
    When it is sent
    Then the alert says "Conversation history reaches its threshold (25 of 20 messages). Apply summarization or a sliding window."

  Scenario: A short history is none of its business
    Given a history of 19 messages and 1900 tokens
    When it is sent
    Then there is no alert
    And the client's own messages are forwarded

  Scenario: A summary of fifteen messages and five as they were
    Given the policy's action is summarize
    And a history of 20 messages and 2400 tokens
    When it is sent
    Then the distraction is MEDIUM
    And a summary is forwarded, and the last 5 messages as they were
    And the summary takes at most 200 tokens
    And the other 15 can be read back by its reference
    And the record says that 20 messages became 6

  Scenario: The summary stays as it is while the conversation goes on
    Given the policy's action is summarize
    And a history of 20 messages and 2400 tokens
    When it is sent
    And it is sent again with 4 more messages
    Then what was forwarded first begins what is forwarded now
    When it is sent again with 8 more messages
    Then there is a new summary, in place of the first

  Scenario: A window of ten out of forty
    Given the policy's action is sliding_window
    And a history of 40 messages and 3600 tokens
    When it is sent
    Then the distraction is MEDIUM
    And a reference is forwarded, and the last 10 messages as they were
    And the other 30 can be read back by its reference
    And the other 30 stay evidence for the answer
    And the record says that 40 messages became 11
