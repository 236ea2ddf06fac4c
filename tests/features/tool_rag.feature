@slow
Feature: An agent's many tools, and the few that its task needs
  An agent sends all of its tools with every request. Groundwire sends on those that the question needs and offers a search for the
  others; the agent notices nothing.

  Background:
    Given an agent with 45 tools, whose descriptions take about 3500 tokens
    And a proxy that selects among more than 30 tools, at most 5 at a time

  Scenario Outline: Only the tools of the question reach the model
    When the user asks "<question>"
    Then at most <most> of the agent's tools reach the model
    And "<tool>" is among them
    And none of "<others>" is among them
    And the model is offered a search for the other tools
    And the response tells that 45 tools were offered and how many were kept

    Examples:
      | question                                        | tool           | most | others                                 |
      | search for flights                              | search_flights | 5    | book_hotel, send_email, convert_to_pdf |
      | book a hotel in Paris                           | book_hotel     | 5    | search_flights, send_email, open_document |

    Examples: No tool is sure to be the one, so that more are sent
      | question                                        | tool           | most | others                                 |
      | I need to tell my team by mail that I'll be late | send_email    | 10   | search_flights, book_hotel, get_stock_price |

  Scenario Outline: By default a few tools go where one is sure, and all where none is
    Given a policy that keeps all tools where none is sure
    When the user asks "<question>"
    Then the response says "<tools>"

    Examples:
      | question                                           | tools         |
      | book a hotel in Paris                              | 45->3         |
      | I need to tell my team by mail that I'll be late   | 45->45;unsure |

  Scenario: Tools that belong together come together
    When the user asks "book a hotel in Paris"
    Then "search_hotels" is among them

  Scenario Outline: Nobody offers the very tool that was asked for
    Given the agent has no "book_hotel"
    When the user asks "<question>"
    Then "search_hotels" is among them

    Examples:
      | question                             |
      | Book hotel in Paris                  |
      | I need a place to stay in Paris      |
      | Ich brauche eine Unterkunft in Paris |
      | Necesito alojamiento en París        |
      | Je cherche où dormir à Paris         |

  Scenario: What was found is booked or cancelled next
    When the user asks "search for flights"
    Then "book_flight" is among them
    And "cancel_flight" is among them

  Scenario: The catalogue is embedded and indexed once
    When the user asks "search for flights"
    Then all 45 tools have been embedded
    And the selection was not waiting for the index
    When another client asks "book a hotel in Paris"
    Then only the new question has been embedded

  Scenario: A run keeps its tools in their order
    When the user asks "search for flights"
    And the same run goes on with "now book a hotel in Paris"
    Then the tools of the first request stand first, as they were
    And "book_hotel" is among them

  Scenario: A tool that was left out costs a turn, not the task
    Given a model that searches for "convert_to_pdf" and then calls it
    When the user asks "search for flights"
    Then the answer calls "convert_to_pdf" and nothing else
    And the model has got "convert_to_pdf" at the end of the tools it had
    When the same run goes on with "search for flights"
    Then "convert_to_pdf" is among them

  Scenario: What the model calls is learned, and the operator can see and delete it
    Given a model that searches for "convert_to_pdf" and then calls it
    When the user asks "search for flights"
    Then the operator sees that a client taught "convert_to_pdf", and can delete it

  Scenario: A small set of tools passes as it is
    Given the agent has only 12 of its tools
    When the user asks "search for flights"
    Then all 12 tools reach the model, byte for byte
    And the response says "12->12;below-threshold"

  Scenario: The operator sees what the selection is worth after 500 calls
    Given a model that calls the tool which the question needs, and searches when it is not listed
    When 500 questions have been asked
    Then at least 95% of its tool calls were to tools that were listed
    And at most 5 tools were in context on average, of 45
    And at least 80% of the tool tokens were saved
    And the dashboard shows these figures
