Feature: Confidence
  An answer is as sure of itself as its evidence allows, or the client is told; one that is sure of what its evidence contradicts can be refused.

  Background:
    Given the passage 1 from "docs/guide.md": "The Eiffel Tower is 330 metres tall."

  Scenario: A rating that a contradicted claim does not carry is refused
    Given too little support is refused
    And the verifier gives every claim a support of 0.3, and the passage's own words one of 0.9
    When the model says "The Eiffel Tower was sold to a travelling circus. Confidence: HIGH"
    Then the client gets a 400 "policy_blocked" about "insufficient_confidence" that names "insufficient confidence in claim accuracy"
    And the record says that the support is 0.3, and that the policy asks for 0.8

  Scenario: Weak support of a supported claim is no reason to refuse
    Given too little support is refused
    And the verifier gives every claim a support of 0.55
    When the model says "The Eiffel Tower is 330 metres tall."
    Then the client gets it unchanged
    And the verdict is "pass"

  Scenario: An answer that promises more than its evidence carries
    When the model says "The Eiffel Tower is 330 metres tall [Passage 1]. The Eiffel Tower is 440 metres tall. Confidence: HIGH"
    Then the verdict is "warn"
    And the warnings hold "overclaimed"
    And the headers say
      | header       | value            |
      | confidence   | HIGH;overclaimed |
      | faithfulness | 0.50             |

  Scenario: An answer that is too modest is no warning
    When the model says "The Eiffel Tower is 330 metres tall [Passage 1]. Confidence: LOW"
    Then the verdict is "pass"
    And the headers say
      | header     | value |
      | confidence | LOW   |
    And the record calls the rating "LOW;underclaimed"
