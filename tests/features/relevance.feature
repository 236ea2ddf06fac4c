Feature: The relevance guard
  A question whose passages cannot answer it is caught before a model invents an answer.

  Background:
    Given a knowledge base of product manuals
      | passage                                                                                                                                                                                        |
      | Descale the coffee machine every three months. Fill the tank with water and one sachet of descaler, then press the steam button for five seconds until the light blinks.                     |
      | If the washing machine vibrates while spinning, level its four feet with a spanner and remove the transport bolts at the back. Keep the bolts: they are needed when the machine is moved.     |
      | The battery of the cordless drill is charged in 45 minutes. A red light means that the battery is too hot; let it cool down before you charge it again.                                        |

  Scenario: A German question about knowledge graphs is turned away without a call
    When the user asks "Wie hängen Wissensgraphen mit großen Sprachmodellen zusammen?"
    Then the answer is "Das kann ich nicht beantworten: Diese Information ist nicht in der Wissensdatenbank enthalten."
    And the model was not called
    And the verdict is "warn" with the warning "low_relevance"
    And the relevance is below 0.40
    And the record says that the stage answered, and scores every passage

  Scenario Outline: The no-answer text is in the language of the question
    When the user asks "<question>"
    Then the answer contains "<words>"
    And the model was not called

    Examples:
      | question                                                          | words                                        |
      | What is a knowledge graph and how do companies build one?         | this information is not in the knowledge base |
      | ¿Qué es un grafo de conocimiento y para qué se utiliza?           | no está en la base de conocimientos          |
      | Qu'est-ce qu'un graphe de connaissances et à quoi sert-il ?       | ne figure pas dans la base de connaissances  |

  Scenario Outline: A question in other words than the manual's is let through
    When the user asks "<question>"
    Then the model was called once with all passages
    And the verdict is "pass"
    And the relevance is at least 0.40

    Examples:
      | question                                                              |
      | The drill shows a red light, may I plug it in?                        |
      | Why does my washer shake so much during the spin cycle?               |
      | Wie lange dauert es, bis der Akku des Bohrers voll geladen ist?       |

  Scenario: A policy that only warns
    Given the policy's action is "warn"
    When the user asks "Wie hängen Wissensgraphen mit großen Sprachmodellen zusammen?"
    Then the model was called once with all passages
    And the verdict is "warn" with the warning "low_relevance"

  Scenario: A streaming client gets a stream
    When the user asks "Wie hängen Wissensgraphen mit großen Sprachmodellen zusammen?" and streams
    Then the events are a whole chat completion stream that says "Diese Information ist nicht in der Wissensdatenbank enthalten."
    And the model was not called

  Scenario: An agent that can search again is not cut short
    Given the request offers the tool "session_search"
    When the user asks "Wie hängen Wissensgraphen mit großen Sprachmodellen zusammen?"
    Then the model was called once with all passages
    And the verdict is "warn" with the warning "low_relevance"

  Scenario: A passage that does not belong stays out of the prompt
    Given the policy leaves out passages below 0.20
    And the passages come as groundwire.context
    When the user asks "Why does my washer shake so much during the spin cycle?"
    Then the model saw only the passage about "washing machine"
    And the verdict is "pass"
