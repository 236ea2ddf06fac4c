Feature: New context is validated before the model sees it
  A tool's result is measured by relevance, freshness, accuracy, completeness and consistency. What falls short is reported, left out,
  or refused with its reason.

  Background:
    Given a knowledge base that knows
      | subject | statement                                          |
      | Uhrturm | The Uhrturm in Graz is 28 metres tall.             |
      | Mur     | The river Mur flows through Graz.                  |
    And the user asks "How tall is the Uhrturm, the clock tower of Graz?"

  Scenario: A result of this very minute is fresh
    When a tool returns "The Uhrturm, the clock tower of Graz, stands on the Schlossberg hill above the old town." fetched 60 seconds ago
    Then its freshness is 1.00
    And there is no warning "context_stale"

  Scenario: A result of two hours ago is stale and leaves the context
    Given the policy drops what is stale
    When a tool returns "The Uhrturm, the clock tower of Graz, stands on the Schlossberg hill above the old town." fetched 7200 seconds ago
    Then its freshness is 0.50
    And the warnings are "context_stale"
    And the model sees a note in its place that says "out of date (2 h old, at most 1 h)"
    And the next turn forwards the same messages as before

  Scenario: A result about something else is irrelevant
    When a tool returns "Knead the dough for ten minutes, let it rise in a warm place, then bake the bread until its crust turns brown." fetched 60 seconds ago
    Then its relevance is below 0.70
    And the warnings are "context_irrelevant"

  Scenario: A record with two of three required fields is incomplete
    Given the policy requires the fields "name, height_m, built"
    When a tool returns the record {"name": "Uhrturm, clock tower of Graz on the Schlossberg hill", "height_m": 28, "built": null}
    Then its completeness is 0.67
    And the warnings are "context_incomplete"

  Scenario: A false figure is inaccurate, and the knowledge base says what is so
    When a tool returns "The Uhrturm in Graz is 55 metres tall." fetched 60 seconds ago
    Then its accuracy is 0.00
    And the warnings are "context_inaccurate"
    And the record says that known is "The Uhrturm in Graz is 28 metres tall."

  Scenario: A result that contradicts what the user has said is inconsistent
    Given the user has said "My hotel in Graz is the Hotel Erzherzog Johann. My train leaves Graz at 9 in the morning."
    When a tool returns "The train leaves Graz at 4 in the afternoon." fetched 60 seconds ago
    Then its consistency is 0.00
    And the warnings hold "context_inconsistent"

  Scenario: A good result passes on every metric
    Given the policy requires the fields "note, source"
    When a tool returns the record {"note": "The Uhrturm in Graz is 28 metres tall.", "source": "city museum", "topic": "clock tower of Graz"}
    Then the stage's verdict is "pass"
    And its score is at least 0.95
    And the model sees the result as it was sent

  Scenario: A policy that rejects says why
    Given the policy requires the fields "name, height_m, built"
    And the policy rejects what falls short
    When a tool returns the record {"name": "Uhrturm, clock tower of Graz on the Schlossberg hill", "height_m": 28, "built": null}
    Then the request is refused with 400, "policy_blocked" and "context_quality"
    And the refusal says "2 of 3 required fields, without built"
    And the model is not asked
