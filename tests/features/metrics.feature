Feature: What the proxy did, in figures
  An operator reads at /groundwire/v1/metrics what came of a day's traffic, and Prometheus reads the same at /metrics.

  Scenario: Fifteen of a thousand new pieces of context are false
    Given a proxy that blocks what its knowledge base contradicts
    When clients send 1000 new passages, of which these are false
      | statement                                            | pieces |
      | The Eiffel Tower stands in London.                   | 8      |
      | The Eiffel Tower was opened in 1950.                 | 5      |
      | The battery of the Aurora lamp lasts 30 hours.       | 2      |
    Then 1000 pieces were checked, 15 were poisoned and 15 were blocked
    And the poisoning rate is 1.5%
    And the types are, the most common first
      | type           | pieces |
      | wrong_location | 8      |
      | wrong_date     | 5      |
      | wrong_number   | 2      |
    And Prometheus divides its own figures to the same rate, below what wakes somebody

  Scenario: Long histories raise alerts that say what to do
    Given a proxy that watches over histories of more than 20 messages
    When clients send histories of 50, 45, 25 and 10 messages
    Then there are 3 distraction alerts
    And 2 of them are HIGH and recommend sliding_window
    And 1 of them is MEDIUM and recommends summarize
    And each alert stands in the record of its exchange, and the short history has none

  Scenario: Tools are chosen for five hundred calls
    Given a proxy that selects among the 45 tools of an agent
    When the model answers 500 requests with a tool call, 25 of them to a tool that was left out
    Then the selection accuracy is 95%
    And an average of 45 tools was offered, and of 1 sent
    And more than 90% of the description tokens were saved
    And Prometheus has 500 calls, 475 of them foreseen

  Scenario: Forty-eight of fifty clashes need nobody
    Given a proxy that prefers recent statements, and asks where health is concerned
    When 48 users move house and 2 users contradict themselves about an allergy
    Then 50 clashes were found and 48 were resolved automatically
    And 2 needed an intervention, for which the user was asked
    And all that was resolved was resolved by prefer_recent
    And the types of the 50 clashes are told
