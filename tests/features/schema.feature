Feature: Schema
  Tool calls match their tools' schemas, and JSON answers what was asked for: mended, asked for again, passed with a warning, or refused.

  Background:
    Given a tool "search" that takes a "query" of type "string" and a "limit" of type "integer"

  Scenario Outline: What can be mended without loss is mended
    When the model calls "search" with <written>
    Then the client gets the arguments {"query": "x", "limit": 3}
    And the verdict is "warn", about "schema_repaired"
    And the model was asked 1 times

    Examples:
      | written                          |
      | {"query": "x", "limit": 3,}      |
      | {'query': 'x', 'limit': 3}       |
      | {query: "x", limit: 3}           |
      | {"query": "x", "limit": "3"}     |
      | "{\"query\": \"x\", \"limit\": 3}" |

  Scenario: A streamed call is mended too
    Given the client streams
    When the model calls "search" with {'query': 'x', 'limit': 3}
    Then the client gets the arguments {"query": "x", "limit": 3}

  Scenario: What cannot be mended is asked for again
    When the model calls "search" with {"limit": 3}
    And then "search" with {"query": "x", "limit": 3}
    Then the client gets the arguments {"query": "x", "limit": 3}
    And the verdict is "unsure"
    And the model was told "the required property \"query\" is missing"

  Scenario: A tool that does not exist
    When the model calls "serch" with {"query": "x"}
    And then "search" with {"query": "x", "limit": 3}
    Then the client gets the arguments {"query": "x", "limit": 3}
    And the model was told "Did you mean \"search\"?"

  Scenario: The number of tries is bounded
    When the model calls "search" with {"limit": 3}
    Then the client gets the arguments {"limit": 3}
    And the verdict is "warn", about "arguments_mismatch"
    And the model was asked 2 times
    And the record points at "" for "required" of "query", and holds no value

  Scenario: A policy that refuses
    Given what does not conform is refused
    When the model calls "search" with {"limit": 3}
    Then the client gets a 400 "policy_blocked" about "schema_violation"
