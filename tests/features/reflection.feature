Feature: Failures are remembered, told where they help, and stopped when they repeat
  An agent runs through the proxy and changes nothing of itself. What goes wrong is found in what it sends and gets, kept as facts without
  a word of the conversation, told to the model in one short block at the end of the prompt, and stopped where it goes on and on.

  Background:
    Given an agent with the tools search_docs and get_order

  # ---- what is found ----

  Scenario Outline: A signal gives a record that says what happened and points to where
    Given <what happens>
    When the agent asks the model
    Then there is one failure "<signal>" "<code>" of "<subject>"
    And its advice is "<advice>"
    And it points to <where>
    And no record contains a word of the conversation

    Examples:
      | what happens                                     | signal            | code              | subject     | advice             | where              |
      | search_docs with 50 results times out            | tool_error        | timeout           | search_docs | paginate           | a call and message |
      | get_order reports status 404                     | tool_error        | not_found         | get_order   | change_arguments   | a call and message |
      | get_order says that permission is denied         | tool_error        | permission_denied | get_order   | ask_human          | a call and message |
      | search_docs finds nothing                        | retrieval_failure | empty_result      | search_docs | rephrase_query     | a call and message |
      | search_docs finds a page with score 0.12         | retrieval_failure | low_relevance     | search_docs | rephrase_query     | a call and message |
      | the unknown tool find_docs is called             | schema_violation  | unknown_tool      | find_docs   | use_known_tool     | a call and message |
      | get_order is called without its id               | schema_violation  | arguments_mismatch | get_order  | fix_arguments      | a call and message |
      | get_order is called with broken JSON             | schema_violation  | invalid_json      | get_order   | return_valid_json  | a call and message |
      | the same order is looked up 3 times              | loop              | same_call         | get_order   | use_result         | a call and message |
      | two calls take turns for 3 rounds                | loop              | alternating       | get_order   | stop_repeating     | a call and message |
      | the user says "No, that is wrong, I said Tuesday." | human_correction | rejected         |             | follow_correction  | a span             |
      | the user says "Nein, das ist falsch, ich sagte Dienstag." | human_correction | rejected  |             | follow_correction  | a span             |
      | the user says "No, eso está mal, dije martes."   | human_correction  | rejected          |             | follow_correction  | a span             |
      | the user says "Stop using search_docs. Use get_order instead." | human_correction | override | search_docs | follow_correction | a span         |

  Scenario Outline: What only the answer shows is a record, too
    Given <what happens>
    When the agent asks the model
    Then there is one failure "<signal>" "<code>" of "<subject>"
    And it points to the exchange

    Examples:
      | what happens                              | signal           | code              | subject |
      | the model's answer breaks the JSON schema | schema_violation | response_mismatch |         |
      | the model's answer is not JSON            | schema_violation | response_not_json |         |
      | a passage with score 0.12 comes along     | retrieval_failure | low_relevance    |         |
      | the upstream fails with status 500        | upstream_error   | server_error      | main    |
      | the upstream fails with status 429        | upstream_error   | rate_limited      | main    |
      | the model's answer is cut off             | budget_pressure  | output_truncated  |         |
      | the prompt fills 95% of the window        | budget_pressure  | context_critical  |         |
      | the prompt does not fit the window        | budget_pressure  | context_length_exceeded | |

  Scenario Outline: What a tool does as it should is no failure
    Given get_order returns '<result>'
    When the agent asks the model
    Then there are no failures

    Examples:
      | result                                                        |
      | {"id": "A7", "error": null, "errors": []}                     |
      | {"title": "Login error on page 3", "state": "open"}           |
      | 0 errors, 12 passed                                           |
      | def f():\n    raise ValueError("no such thing")\n\nprint(f)   |

  # ---- the same again ----

  Scenario: Identical failures share a fingerprint and count up
    Given get_order reports status 404
    And get_order reports status 404 in other words
    When the agent asks the model
    Then there is one failure "tool_error" "not_found" of "get_order"
    And it has occurred 2 times
    And its revisions are "injected, occurred, occurred"

  Scenario: The same turn, sent again and to another worker, is counted once
    Given get_order reports status 404
    When the agent asks the model
    And the proxy is started anew
    And the agent asks the model
    Then it has occurred 1 times

  Scenario: The same action succeeding resolves it, and guidance that was followed has helped
    Given get_order reports status 404
    And the agent asks the model
    And get_order returns '{"id": "A7", "state": "sent"}'
    When the agent asks the model
    Then the failure is resolved, helpful 1, harmful 0
    And nothing is told

  Scenario: Doing what was recommended, with success, resolves it and has helped, and it is told no more
    Given search_docs with 50 results times out
    And the agent asks the model
    And the model is told "at most 10"
    And search_docs with 10 results finds a page
    When the agent asks the model
    Then the failure is resolved, helpful 1, harmful 0
    And nothing is told
    Given get_order returns '{"id": "A7", "state": "sent"}'
    When the agent asks the model
    Then nothing is told
    Given search_docs with 10 results finds a page
    When the agent asks the model
    Then the failure is resolved, helpful 1, harmful 0
    And nothing is told

  Scenario Outline: An argument that was changed or fixed, with success, resolves it and has helped
    Given <what happens>
    And the agent asks the model
    And the model is told "get_order"
    And get_order returns '{"id": "B1", "state": "sent"}' for "B1"
    When the agent asks the model
    Then the failure is resolved, helpful 1, harmful 0
    And nothing is told

    Examples:
      | what happens                        |
      | get_order reports status 404        |
      | get_order is called without its id  |
      | get_order is called with broken JSON |

  Scenario: The next order of two that were asked for is no correction of the first
    Given the user says "And where are the orders Wolperdinger-7 and B1?"
    And get_order reports status 404
    And the agent asks the model
    And get_order returns '{"id": "B1", "state": "sent"}' for "B1"
    When the agent asks the model
    Then the failure is active, helpful 0, harmful 0

  Scenario: Other words that find more resolve a weak search
    Given search_docs finds a page with score 0.12
    And the agent asks the model
    And the model is told "use other words"
    And search_docs finds a page with score 0.81
    When the agent asks the model
    Then the failure is resolved, helpful 1, harmful 0
    And nothing is told

  Scenario: Guidance that was followed by the same failure was of no use
    Given get_order reports status 404
    And the agent asks the model
    And get_order reports status 404
    When the agent asks the model
    Then the failure is active, helpful 0, harmful 1

  Scenario: An operator resolves a failure and judges guidance over HTTP
    Given get_order reports status 404
    And the agent asks the model
    When the operator finds its guidance helpful
    And the operator resolves it
    Then the failure is resolved, helpful 1, harmful 0
    And its revisions are "resolved, helpful, injected, occurred"

  Scenario: Another client's failures are not told
    Given get_order reports status 404
    And the agent asks the model
    When another client asks with a conversation of its own in the same run
    Then nothing is told

  # ---- told ----

  Scenario: A failure is told in one block at the prompt's end, and the rest of the prompt stays
    Given search_docs with 50 results times out
    When the agent asks the model
    Then the model is told "search_docs"
    And the model is told "10"
    And all messages but the last reach the model as they were
    And the block has at most 200 tokens
    And the header x-groundwire-failures is 1

  Scenario: Of many failures the 5 that matter most are told, the same each time
    Given 9 tools fail, with pages read in between
    When the agent asks the model
    And the agent asks the model
    Then 5 failures are told both times, in the same words
    And the block has at most 200 tokens

  Scenario Outline: Of failures that weigh the same the latest comes first
    Given <first>
    And <second>
    When the agent asks the model
    Then the first failure told is of "<tool>"

    Examples:
      | first                              | second                             | tool        |
      | get_order reports status 404       | search_docs reports status 404     | search_docs |
      | search_docs reports status 404     | get_order reports status 404       | get_order   |

  Scenario Outline: What the model can do nothing about is not told
    Given <what happens>
    And the agent asks the model
    And the upstream answers as it should
    When the agent asks the model
    Then nothing is told
    And all messages reach the model as they were

    Examples:
      | what happens                               |
      | the upstream fails with status 500         |
      | the client asks for too long an answer     |

  Scenario: A prompt that was too long is told to the same model, and to no other
    Given the prompt does not fit the window
    And the agent asks the model
    And the agent has shortened it
    When the agent asks the model
    Then the model is told "the prompt was too long for the model"
    Given the prompt does not fit the window
    And the agent asks the model
    And the agent has shortened it
    And the agent takes the model "gpt-4o-mini"
    When the agent asks the model
    Then nothing is told

  Scenario: Nothing is told where nothing failed
    Given get_order returns '{"id": "A7"}'
    When the agent asks the model
    Then nothing is told
    And the header x-groundwire-failures is 0
    And all messages reach the model as they were

  # ---- stopped ----

  Scenario Outline: The same failure three times asks a person
    Given the client <reads>
    And get_order says that permission is denied
    And get_order says that permission is denied
    When the agent asks the model
    Then the model was asked
    Given get_order says that permission is denied
    When the agent asks the model
    Then the model was not asked
    And the answer is a question that names "get_order"
    And the warnings have "human_asked"

    Examples:
      | reads                |
      | waits for the answer |
      | streams the answer   |

  Scenario: When the person has answered, the agent goes on
    Given get_order says that permission is denied
    And get_order says that permission is denied
    And get_order says that permission is denied
    And the agent asks the model
    And the user says "I have given you access. Go on."
    When the agent asks the model
    Then the model was asked

  Scenario: A tool that the model makes up again and again is a question, too
    Given the unknown tool find_docs is called
    And the unknown tool find_docs is called
    And the unknown tool find_docs is called
    When the agent asks the model
    Then the model was not asked
    And the answer is a question that names "find_docs"

  Scenario: A broken invariant ends the request with an error: a handle that leads nowhere
    Given get_order returns 'Error: the cursor is no longer valid'
    And get_order returns 'Error: the cursor is no longer valid'
    And get_order returns 'Error: the cursor is no longer valid'
    When the agent asks the model
    Then the model was not asked
    And the request is refused with "system_error"

  Scenario: Progress in between begins the count anew
    Given get_order reports status 404
    And get_order reports status 404
    And get_order returns '{"id": "B1", "state": "sent"}' for "B1"
    And get_order reports status 404
    When the agent asks the model
    Then the model was asked

  Scenario: A client that waits for a tool call gets an error, not words
    Given get_order says that permission is denied
    And get_order says that permission is denied
    And get_order says that permission is denied
    And the client forces a tool call
    When the agent asks the model
    Then the request is refused with "system_error"

  # ---- a person's word ----

  Scenario Outline: A person's "at most 10" is a cap
    Given the user says "<words>"
    When the agent asks the model
    Then the model is told "keep to at most 10"

    Examples:
      | words                                 |
      | At most 10 results, please.           |
      | Höchstens 10 Ergebnisse, bitte.       |
      | Como máximo 10 resultados, por favor. |
      | Pas plus de 10 résultats.             |

  Scenario: Of a person's two caps the later one counts, also where both are seen at once
    Given the user says "At most 10 results, please."
    And the user says "No, at most 20 results."
    When the agent asks the model
    Then the model is told "at most 20"
    And the model is not told "at most 10"

  Scenario: Without its store the stage says so, and the request goes on
    Given the store is away
    And get_order reports status 404
    When the agent asks the model
    Then the model was asked
    And the warnings have "failures_unchecked"
