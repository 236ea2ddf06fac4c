Feature: A prompt that nears the window is brought back
  Long conversations go on: near the model's window Groundwire shortens what it forwards, by the gentlest means that is enough, says
  what it did, and keeps what it took out within one call of the model.

  Background:
    Given a model with a window of 8192 tokens
    And a policy that compresses at 80% of it down to 60%, and hard at 90%

  Scenario: At 80.6% of the window
    Given a conversation of 20 messages that takes 6603 tokens
    When it is sent
    Then the prompt was 80.6% of the window
    And at most 60% of the window is forwarded
    And compression was not aggressive
    And compression passes with a target of 4915 tokens
    And the response's header and the record agree on what was done

  Scenario: Just below the threshold nothing is touched, and the response says so
    Given a conversation of 20 messages that takes 6553 tokens
    When it is sent
    Then the client's own messages are forwarded
    And the response's header is "none;below-threshold"

  Scenario Outline: No more leaves the prompt than the target needs, the oldest first
    Given a conversation of <messages> messages that takes 6720 tokens
    And the first <old> of them are 90 minutes old, the others 5
    When it is sent
    Then the prompt was 82.0% of the window
    And between 50% and 60% of the window is forwarded
    And the newest messages that are forwarded follow each other, as they were

    Examples:
      | messages | old |
      | 20       | 18  |
      | 20       | 0   |
      | 60       | 60  |
      | 60       | 10  |

  Scenario: Messages older than an hour leave the prompt
    Given a policy that compresses at 80% of it down to 37%, and hard at 90%
    And the only strategy is trim
    And 20 messages of 340 tokens each
    And the first 12 of them are 61 minutes old, the others 59
    When it is sent
    Then the first 12 are not in the prompt any more
    And the other 8 are, byte for byte
    And the 12 can be read back by a reference
    And the strategies freed tokens, in this order: trim

  Scenario: Thirty messages become one summary
    Given a model with a window of 3400 tokens
    And the only strategy is summarize, for all but the last message
    And a conversation of 30 messages that takes 3000 tokens
    And the user said in between "I prefer a window seat, and we decided to take booking KX-4471 for 1,250 EUR."
    And a last question of 100 tokens
    When it is sent
    Then a summary of at most 200 tokens and the last question are forwarded
    And the summary still says "window seat", "KX-4471" and "1,250 EUR"
    And the compression ratio is above 3.0

  Scenario: A tool's results go to the archive, and the model can read them there
    Given a model with a window of 1700 tokens
    And the only strategy is archive
    And a tool's result of 1200 tokens that the model has answered
    When it is sent
    Then a reference of at most 30 tokens stands in place of the result
    And the call is still answered
    And the reference tells which tool it was and the result's size
    When the model reads the archive page by page
    Then it gets the result byte for byte
    When the model searches the archive for "invoice 37,"
    Then it is shown the line of invoice 37

  Scenario: Three strategies one after the other, from 85% to below 60%
    Given a conversation at 85% of the window
      | part                         | tokens | minutes old |
      | a system message             | 1500   |             |
      | 6 messages                   | 720    | 90          |
      | 10 messages                  | 840    | 5           |
      | a question                   | 450    | 2           |
      | 6 tool results of one step   | 3204   | 1           |
      | an answer and a new question | 246    | 0           |
    When it is sent
    Then the prompt was 85.0% of the window
    And between 50% and 60% of the window is forwarded
    And the strategies freed tokens, in this order: trim, summarize, archive
    And each strategy began with what the one before it had left
    And the system message and the new question are forwarded as they were

  Scenario: A strategy that is not needed is not tried
    Given a conversation of 20 messages that takes 6603 tokens
    When it is sent
    Then archive was not tried

  Scenario: From 5,000 tokens to 1,000 is a ratio of 5.0
    Given every word counts as a token
    And a model with a window of 6000 tokens
    And the only strategy is archive
    And a prompt of 5000 tokens of which all but 1000 can be archived
    When it is sent
    Then the response's header is "archive;5000->1000;5.0x"
    And the record and the metrics say a ratio of 5.0

  Scenario: At 90.2% everything but the essential is summarised and archived
    Given a conversation at 90.2% of the window, with tool results
    And the user said in between "I prefer a window seat, and we decided to take booking KX-4471 for 1,250 EUR."
    When it is sent
    Then the prompt was 90.2% of the window
    And compression was aggressive
    And less than 10% of the window is forwarded
    And the system message and the new question are forwarded as they were
    And the summary still says "window seat", "KX-4471" and "1,250 EUR"
    And every tool's result can still be read

  Scenario: At 90.2% in the middle of an agent's task
    Given an agent's task at 90.2% of the window, whose last tool call the model has not read the result of
    When it is sent
    Then the prompt was 90.2% of the window
    And compression was aggressive
    And less than 10% of the window is forwarded
    And the system message, the task, the last call and its result are forwarded as they were
    And every tool's result can still be read

  Scenario: A prompt that cannot be shortened stays at 87%
    Given a system message that alone brings the prompt to 87.0% of the window
    When it is sent
    Then the client's own messages are forwarded
    And the warning is "compression_failed", with usage 7127, target 4915 and advice
    And the failure is counted
    And every strategy says why it did nothing

  Scenario: What cannot be shortened and does not fit is refused
    Given a system message that alone brings the prompt to 89.0% of the window
    When it is sent
    Then it is refused with "context_length_exceeded"

  Scenario: The same conversation is forwarded in the same bytes by another worker
    Given a conversation of 20 messages that takes 6603 tokens
    When it is sent
    And it is sent again with one more turn
    Then what was forwarded first begins what is forwarded now
    And the response's header begins with "stored;"
