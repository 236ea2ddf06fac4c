Feature: Citations
  What an answer cites must exist, and must say what the sentence says that cites it.

  Background:
    Given the passage 1 from "docs/guide.md": "The Eiffel Tower is 330 metres tall."
    And the passage 2 from "https://example.org/paris": "The Eiffel Tower stands in Paris."

  Scenario: A faithful answer with citations
    When the model says "The Eiffel Tower stands in Paris [Passage 2]. The Eiffel Tower is 330 metres tall. [Source: guide.md] Confidence: HIGH"
    Then the client gets it unchanged
    And the verdict is "pass"
    And the headers say
      | header       | value |
      | citations    | 2/2   |
      | faithfulness | 1.00  |
      | confidence   | HIGH  |
      | quality      | 1.00  |

  Scenario: An answer that ignores its context
    When the model says "Blackpool Tower was designed by Maxwell and Tuke, and it opened to a crowd of three thousand visitors."
    Then the verdict is "warn"
    And the warnings hold "context_ignored"
    And the headers say
      | header       | value |
      | citations    | 0/0   |
      | faithfulness | 0.05  |
    And the quality is below 0.35

  Scenario: An answer that admits it does not know
    When the model says "I do not know who designed the tower: it is not in the context that you gave me."
    Then the client gets it unchanged
    And the verdict is "unchecked"
    And the headers say
      | header       | value |
      | citations    | 0/0   |
      | confidence   | none  |

  Scenario: A passage and a source that nobody gave
    When the model says "The Eiffel Tower stands in Paris [Passage 5]. The Eiffel Tower is 330 metres tall [Quelle: Atlas der Türme]."
    Then the warnings hold "citation_invented"
    And the headers say
      | header       | value |
      | citations    | 0/2   |
      | faithfulness | 1.00  |

  Scenario Outline: False citations are taken out, and the text stays
    Given citations that do not hold are taken out, and the client <reads> the answer
    When the model says "The Eiffel Tower stands in Paris [Passages 1-2]. The Eiffel Tower is 330 metres tall. [Passage 7] Confidence: HIGH"
    Then the client gets "The Eiffel Tower stands in Paris [Passages 1-2]. The Eiffel Tower is 330 metres tall. Confidence: HIGH"

    Examples:
      | reads     |
      | waits for |
      | streams   |

  Scenario: An answer with an invented source is refused
    Given citations that do not hold are refused
    When the model says "The Eiffel Tower stands in Paris [Source: atlas.pdf]."
    Then the client gets a 400 "policy_blocked" about "citations_invalid" that names "atlas.pdf"
