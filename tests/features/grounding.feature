Feature: Grounded answers
  Before an answer reaches the client, the proxy knows which of its statements the context supports, and acts on those that fail.

  Background:
    Given a passage from "guide.md" that says "The Eiffel Tower is a lattice tower in Paris. It is 330 metres tall. It was opened in 1889."

  Scenario: A tower in its place is supported, with the evidence
    Given the policy annotates
    When the model says "The Eiffel Tower is in Paris."
    Then the client gets "The Eiffel Tower is in Paris."
    And the verdict is "pass" without warnings
    And the faithfulness is "0.96"
    And the claims are "supported=1,contradicted=0,unsupported=0,unsure=0"
    And the claim "The Eiffel Tower is in Paris." is "supported" by "The Eiffel Tower is a lattice tower in Paris." from "guide.md"

  Scenario: A tower in the wrong place is contradicted, and the right one is given back
    Given the policy annotates
    When the model says "The Eiffel Tower is in London."
    Then the client gets "The Eiffel Tower is in London."
    And the verdict is "warn" with the warning "claims_contradicted"
    And the faithfulness is "0.00"
    And the claim "The Eiffel Tower is in London." is "contradicted" by "The Eiffel Tower is a lattice tower in Paris." from "guide.md"
    And instead the context says "Paris"

  Scenario Outline: Under a strict policy nothing of it leaves
    Given the policy is strict
    And the client <reads> the answer
    When the model says "The Eiffel Tower is 330 metres tall. The Eiffel Tower is in London."
    Then the client gets a 400 with the code "policy_blocked" and the parameter "hallucination_detected"
    And the message names "Paris"
    And the faithfulness is "0.48"
    And instead the context says "Paris"

    Examples:
      | reads        |
      | waits for    |
      | streams      |

  Scenario: While it streams, a false sentence is taken out before it leaves
    Given the policy redacts at the gate
    And the client streams the answer
    When the model says "The Eiffel Tower is in Paris. The Eiffel Tower is in London. The Eiffel Tower is 330 metres tall."
    Then the client gets "The Eiffel Tower is in Paris. The Eiffel Tower is 330 metres tall."
    And the record says "warn" with a faithfulness of 0.64

  Scenario Outline: The client of a stream asks what was found when it has left
    Given the policy <acts>
    And the client streams the answer
    When the model says "The Eiffel Tower is in Paris. The Eiffel Tower is in London. The Eiffel Tower is 330 metres tall."
    Then the answer's headers say "<at first>"
    And the client's own question says "warn" with the warning "claims_contradicted"
    And "The Eiffel Tower is in Paris." is told as "supported" where it stands
    And "The Eiffel Tower is in London." is told as "contradicted" <where>
    And "The Eiffel Tower is 330 metres tall." is told as "supported" where it stands

    Examples:
      | acts                | at first | where              |
      | watches             | pending  | where it stands    |
      | redacts at the gate | pending  | and stands nowhere |
      | annotates           | warn     | where it stands    |

  Scenario: While it streams, a false sentence ends the answer
    Given the policy blocks at the gate
    And the client streams the answer
    When the model says "The Eiffel Tower is in Paris. The Eiffel Tower is in London. The Eiffel Tower is 330 metres tall."
    Then the client gets "The Eiffel Tower is in Paris."
    And the answer ends with "content_filter"
    And instead the context says "Paris"

  Scenario Outline: What cannot be carried by the context is replaced in the answer's language
    Given the policy replaces
    When the model says "<answer>"
    Then the client gets "<replacement>"

    Examples:
      | answer                                                        | replacement                                                                                             |
      | The tower belongs to the king of Spain.                       | I cannot answer this: this information is not in the knowledge base.                                    |
      | Der Turm gehört seit vielen Jahren dem König von Spanien.     | Das kann ich nicht beantworten: Diese Information ist nicht in der Wissensdatenbank enthalten.           |
      | La torre pertenece desde hace muchos años al rey de España.   | No puedo responder a esto: esta información no está en la base de conocimientos.                         |
      | La tour appartient depuis longtemps au roi d'Espagne.         | Je ne peux pas répondre à cette question : cette information ne figure pas dans la base de connaissances. |

  Scenario: The model is asked again, and does better
    Given the policy asks again
    When the model says "The Eiffel Tower is in London." and then "The Eiffel Tower is in Paris."
    Then the client gets "The Eiffel Tower is in Paris."
    And the verdict is "pass" without warnings
    And the model was told of "The Eiffel Tower is in London." and of "The Eiffel Tower is a lattice tower in Paris."

  Scenario: An answer in JSON stays JSON, also while it streams
    Given the policy redacts at the gate
    And the client streams the answer
    And the client asks for JSON
    When the model says '{"summary": "The Eiffel Tower is in Paris. The Eiffel Tower is in London.", "height": 330}'
    Then the client gets '{"summary": "The Eiffel Tower is in Paris.", "height": 330}'
    And the faithfulness is "0.48"

  Scenario: A model that does not know is not accused
    Given the policy is strict
    When the model says "I don't know: the context does not say who built it."
    Then the client gets "I don't know: the context does not say who built it."
    And the verdict is "unchecked" with the warning "unchecked_no_statements"
    And there is no faithfulness

  Scenario: A chat without context is left alone
    Given the policy is strict
    And there is no passage
    When the model says "The Eiffel Tower is in London."
    Then the client gets "The Eiffel Tower is in London."
    And the verdict is "unchecked" with the warning "unchecked_no_context"

  Scenario: An overloaded verifier is an error, and never a pass
    Given the policy annotates
    And the verifier is overloaded
    When the model says "The Eiffel Tower is in Paris."
    Then the verdict is "error" with the warning "claims_unchecked"
    And there is no faithfulness

  Scenario: Where nothing may leave unchecked, an overloaded verifier refuses
    Given the policy is strict
    And the verifier is overloaded
    When the model says "The Eiffel Tower is in Paris."
    Then the client gets a 503 with the code "overloaded" and the parameter "claims_unchecked"
