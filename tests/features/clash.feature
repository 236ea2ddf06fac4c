Feature: Statements that contradict each other
  People change their minds, tools answer anew, memories grow old. Groundwire finds the statements of a conversation that cannot both
  hold. Where that is certain it sees to it that one counts: the newer one, what the user chooses, or one statement that says both.
  Everything else it only reports.

  Background:
    Given the policy resolves clashes by prefer_recent

  Scenario: The user's words stay as they are, and a note says which of them counts
    Given the user said "Hello. I live in Berlin."
    And the assistant said "Noted."
    When the user says "I live in Munich. Which doctor is near?"
    Then the model gets "Hello. I live in Berlin." as message 0
    And the model gets 'I live in Munich. Which doctor is near?\n\n[Note: "I live in Berlin." no longer counts. What counts is: "I live in Munich."]' as message 2
    And the verdict is warn with the warning clash_noted
    When the user goes on with "Thanks."
    Then the model gets 'I live in Munich. Which doctor is near?\n\n[Note: "I live in Berlin." no longer counts. What counts is: "I live in Munich."]' as message 2
    And the model gets "Thanks." as message 4

  Scenario Outline: What is not certain is not acted on
    Given the user said "<older>"
    And the assistant said "Noted."
    When the user says "<newer>"
    Then the model gets what the client sent
    And the verdict is <verdict>

    Examples:
      | older                                                     | newer                                                    | verdict   |
      | My flight on Monday costs 300 euros.                      | My flight on Friday costs 450 euros. Total?              | unchecked |
      | The draft's deadline is 3 May.                            | The final deadline is 20 May.                            | unchecked |
      | Day 1 Rome.                                               | Day 2 Florence.                                          | unchecked |
      | Ich wohne in Wien. Dort ist auch meine Schwester.         | Sie wohnt in Graz.                                       | unchecked |
      | I grew up in Munich and now I live in Hamburg.            | In summer I live in Munich.                              | unchecked |
      | Write a story: he says he lives in Rome, she in Paris.    | I live in Paris.                                         | unchecked |
      | Find a hotel. My budget is 500 €.                         | Now a laptop for my son. My budget is 900 €.             | pass      |
      | Translate what I write into German.                       | I live in Rome. I live in Paris.                         | pass      |
      | I am allergic to nuts.                                    | I am allergic to milk.                                   | pass      |
      | J'habite à Paris.                                         | En été, j'habite à Nice.                                 | unchecked |

  Scenario: A clash that is not certain is reported
    Given the user said "Find a hotel in Rome. My budget is 500 €."
    And the assistant said "Noted."
    When the user says "And a laptop for my son. My budget is 900 €."
    Then the model gets what the client sent
    And 1 clash is found, of the type CONTRADICTORY_PREFERENCES
    And the verdict is pass
    And the reason is "not certain: only reported, because something else has come up since the older one, which may have been about another task"

  Scenario: A policy that only reports leaves every word, adds no note, and lists the clash once
    Given it only reports
    And the user said "Hello. I live in Berlin."
    And the assistant said "Noted."
    When the user says "I live in Munich. Which doctor is near?"
    Then the model gets what the client sent
    And a person finds 1 clash to look at
    When the user goes on with "Thanks."
    Then the model gets what the client sent
    And a person finds 1 clash to look at

  Scenario Outline: The older statement's sentence leaves, and nothing else
    Given it takes out what no longer counts, whoever has said it
    And the client <reads>
    And the user said "Please find me a hotel in Rome. I prefer budget hotels."
    And the assistant said "With pleasure."
    When the user says "I prefer luxury hotels. What is there?"
    Then the model gets "Please find me a hotel in Rome. " as message 0
    And the model gets "I prefer luxury hotels. What is there?" as message 2
    And 1 clash is found, of the type CONTRADICTORY_PREFERENCES
    And the verdict is warn with the warning clash_removed

    Examples:
      | reads                |
      | waits for the answer |
      | streams the answer   |

  Scenario Outline: Budget hotels below an amount give way to luxury ones as each strategy says
    Given the policy resolves clashes by <strategy>
    And it takes out what no longer counts, whoever has said it
    And the user said "A trip to Rome. I prefer budget hotels, under $50 a night."
    And the assistant said "Noted."
    When the user says "I prefer luxury 5-star hotels."
    Then the model gets "<text>" as message 0
    And 1 clash is found, of the type CONTRADICTORY_PREFERENCES

    Examples:
      | strategy      | text                                                                               |
      | prefer_recent | A trip to Rome.                                                                    |
      | PREFER_RECENT | A trip to Rome.                                                                    |
      | merge         | A trip to Rome. I prefer budget hotels, under $50 a night or luxury 5-star hotels. |

  Scenario: Budget hotels below an amount, and luxury ones, are asked about
    Given the policy resolves clashes by ask_user
    And the user said "A trip to Rome. I prefer budget hotels, under $50 a night."
    And the assistant said "Noted."
    When the user says "I prefer luxury 5-star hotels."
    Then the user is asked to choose from "I prefer budget hotels, under $50 a night." and "I prefer luxury 5-star hotels."

  Scenario Outline: A place of work, a number and a product have one value each
    Given it takes out what no longer counts, whoever has said it
    And the user said "<older>"
    And the assistant said "Noted."
    When the user says "<newer>"
    Then 1 clash is found, of the type CONFLICTING_FACTS
    And the verdict is warn with the warning clash_removed

    Examples:
      | older                          | newer                                     |
      | My office is in New York.      | I work from our London office.            |
      | Mein Büro ist in Köln.         | Ich arbeite in unserem Büro in Wien.      |
      | I have two children.           | I have no children.                       |
      | J'ai trois chats.              | Je n'ai pas de chat.                      |
      | Our database is PostgreSQL 15. | The production database is MySQL 8.       |
      | Wir nutzen PostgreSQL 15.      | Unsere Datenbank ist MySQL 8.             |

  Scenario: A change of mind said as such is an update
    Given the policy resolves clashes by ask_user
    And it takes out what no longer counts, whoever has said it
    And the user said "I prefer budget hotels. Rome, please."
    And the assistant said "Noted."
    When the user says "Actually, make it luxury."
    Then the model gets "Rome, please." as message 0
    And 1 clash is found, of the type OUTDATED_INFORMATION
    And the verdict is warn with the warning clash_removed

  Scenario: The reason tells how old both statements are
    Given the user said "I live in Munich." 48 hours ago
    And the assistant said "Noted."
    And the user said "I live in Berlin." 1 hour ago
    When the conversation is sent
    Then the reason is "new statement is more recent (1 h against 48 h)"

  Scenario Outline: What is not said as so contradicts nothing
    Given the user said "I live in Berlin. I am vegetarian."
    And the assistant said "Noted."
    When the user says "<text>"
    Then no clash is found
    And the model gets what the client sent

    Examples: suppositions, questions, quotations, other people
      | text                                              |
      | What if I lived in Munich?                        |
      | Suppose I lived in Munich, would it be cheaper?   |
      | Is it true that one eats well in Munich?          |
      | My sister said: "I live in Munich."               |
      | My brother lives in Munich.                       |
      | My wife eats meat every day.                      |
      | Und wenn ich in München wohnen würde?             |
      | Meine Frau isst gern Fleisch.                     |
      | ¿Y si viviera en Múnich?                          |
      | Ma sœur habite à Munich.                          |

  Scenario: What is remembered of the user gives way to what they say
    Given the system said "Be brief.\n\n## User profile\n- The user lives in Munich.\n- The user is vegan.\n\n## Rules\nBe kind."
    When the user says "I live in Berlin. Which doctor is near?"
    Then the model gets "Be brief.\n\n## User profile\n\n- The user is vegan.\n\n## Rules\nBe kind." as message 0
    And the verdict is warn with the warning clash_removed

  Scenario: What is remembered twice is said once
    Given it takes out what no longer counts, whoever has said it
    And the system said "Be brief.\n\n## User profile\n- The user lives in Munich.\n- The user is vegan.\n- The user lives in Munich.\n\n## Rules\nBe kind."
    When the user says "Which doctor is near?"
    Then 1 clash is found, of the type DUPLICATE_FACTS
    And the model gets "Be brief.\n\n## User profile\n\n- The user is vegan.\n- The user lives in Munich.\n\n## Rules\nBe kind." as message 0

  Scenario: The system message stays, and the clash is reported
    Given it compares user, system
    And the system said "Always answer in English."
    When the user says "Answer in German. Where is Rome?"
    Then the model gets what the client sent
    And 1 clash is found
    And the verdict is pass

  Scenario Outline: What is remembered of the same time is asked about, before a task only where the policy says so
    Given the policy resolves clashes by <strategy>
    And a passage from "memory" that says "The user lives in New York."
    And a passage from "memory" that says "The user lives in London."
    When the user says "<text>"
    Then the user is asked to choose from the facts "The user lives in New York." and "The user lives in London."

    Examples:
      | strategy      | text                  |
      | ask_user      | Which doctor is near? |
      | ASK_USER      | Turn the heating on.  |
      | prefer_recent | Hello!                |
      | prefer_recent | Thanks a lot.         |

  Scenario Outline: A task is done, and not answered with a question
    Given a passage from "memory" that says "The user lives in New York."
    And a passage from "memory" that says "The user lives in London."
    When the user says "<text>"
    Then the model gets what the client sent
    And the verdict is warn with the warning clash_unresolved
    And 1 clash is found, of the type CONFLICTING_FACTS

    Examples:
      | text                            |
      | Turn the heating on.            |
      | Mach bitte die Heizung an.      |
      | Thanks! And book the 9:40 train |

  Scenario: What one message says of itself is reported
    When the user says "We are 2 people. We are 4 people."
    Then the model gets what the client sent
    And 1 clash is found
    And the verdict is pass

  Scenario Outline: The user is asked, and the context goes by the reply
    Given the policy resolves clashes by ask_user
    And it takes out what no longer counts, whoever has said it
    And the client <reads>
    And the user said "A hotel in Rome. My budget is 500 €."
    And the assistant said "Noted."
    And the user says "My budget is 900 €. What is there?"
    And the user is asked to choose from "My budget is 500 €." and "My budget is 900 €."
    And the verdict is warn with the warning clash_asked
    When the user replies "<reply>"
    Then the model gets "<older>" as message 0
    And the model gets "<newer>" as message 2
    And the clash is resolved by the user as <resolution>
    When the user goes on with "Thanks. And museums?"
    Then the model gets "<older>" as message 0
    And the model gets "<newer>" as message 2

    Examples:
      | reads                | reply                      | older                                       | newer                              | resolution |
      | waits for the answer | 2                          | A hotel in Rome.                            | My budget is 900 €. What is there? | keep_newer |
      | streams the answer   | The first one, please.     | A hotel in Rome. My budget is 500 €.        | What is there?                     | keep_older |
      | waits for the answer | die zweite                 | A hotel in Rome.                            | My budget is 900 €. What is there? | keep_newer |
      | waits for the answer | 900                        | A hotel in Rome.                            | My budget is 900 €. What is there? | keep_newer |
      | streams the answer   | I'm flexible               | A hotel in Rome. My budget is 500 €.        | My budget is 900 €. What is there? | keep_both  |

  Scenario: A question that gets no answer is put twice, and then left
    Given the policy resolves clashes by ask_user
    And the user said "My budget is 500 €."
    And the assistant said "Noted."
    When the user says "My budget is 900 €."
    Then the user is asked to choose from "My budget is 500 €." and "My budget is 900 €."
    When the user replies "What is the weather in Rome?"
    Then the user is asked to choose from "My budget is 500 €." and "My budget is 900 €."
    When the user replies "Is it warmer in Naples?"
    Then the model gets what the client sent
    And the verdict is warn with the warning clash_unresolved

  Scenario Outline: Nobody is asked where nobody can answer in words
    Given the policy resolves clashes by ask_user
    And the user said "My budget is 500 €."
    And the assistant said "Noted."
    And <situation>
    When the user says "My budget is 900 €."
    Then the model gets what the client sent
    And the verdict is warn with the warning clash_unresolved

    Examples:
      | situation                        |
      | the client asks for JSON         |
      | the client asks for 2 choices    |
      | the client waits for a tool call |

  Scenario: After a tool's result the model goes on, and the user is asked with their next message
    Given the policy resolves clashes by ask_user
    And the user said "My budget is 500 €."
    And the assistant said "Noted."
    And the user said "My budget is 900 €."
    When the tool find_hotels returns "Nothing was found."
    Then the model gets what the client sent
    And the verdict is warn with the warning clash_unresolved
    When the user goes on with "Try once more."
    Then the user is asked to choose from "My budget is 500 €." and "My budget is 900 €."

  Scenario Outline: Two statements that can both hold become one
    Given the policy resolves clashes by merge
    And it takes out what no longer counts, whoever has said it
    And the user said "A hotel in Rome, please. <older>"
    And the assistant said "Noted."
    When the user says "<newer>"
    Then the model gets "A hotel in Rome, please. <merged>" as message 0
    And the verdict is warn with the warning clash_removed
    When the user goes on with "Thanks."
    Then the model gets "A hotel in Rome, please. <merged>" as message 0

    Examples: a range, a list
      | older                      | newer                                   | merged                                                                      |
      | My budget is 500 €.        | My budget is 900 €.                     | My budget is between 500 € and 900 €.                                       |
      | I prefer window seats.     | I prefer aisle seats.                   | I prefer window or aisle seats.                                             |

  Scenario: What cannot be merged is the user's to say, but not in the middle of a task
    Given the policy resolves clashes by merge
    And the user said "I live in Berlin."
    And the assistant said "Noted."
    When the user says "I live in Munich. Which doctor is near?"
    Then the model gets what the client sent
    And the verdict is warn with the warning clash_unresolved
    And the reason is "the two statements cannot both hold: only the user can tell"
    When the user goes on with "Thank you."
    Then the user is asked to choose from the facts "I live in Berlin." and "I live in Munich."

  Scenario: A critical clash has a strategy of its own
    Given the policy asks about critical clashes
    And it takes out what no longer counts, whoever has said it
    And the user said "I am vegan. I live in Berlin."
    And the assistant said "Noted."
    When the user says "I eat meat. I live in Munich."
    Then the user is asked to choose from "I am vegan." and "I eat meat."
    And 2 clashes are found
    When the user replies "1"
    Then the model gets "I am vegan." as message 0
    And the model gets "I live in Munich." as message 2

  Scenario: Who changes their mind and changes it back
    Given it takes out what no longer counts, whoever has said it
    And the user said "I live in Berlin. Hello!"
    And the assistant said "Noted."
    When the user says "I live in Munich. Thanks!"
    Then the model gets "Hello!" as message 0
    When the user goes on with "I live in Berlin."
    Then the model gets "Hello!" as message 0
    And the model gets "Thanks!" as message 2
    And the model gets "I live in Berlin." as message 4
    And 2 clashes are found

  Scenario: A person decides over HTTP, and the next turn goes by it
    Given it takes out what no longer counts, whoever has said it
    And the user said "I live in Berlin. Hello!"
    And the assistant said "Noted."
    When the user says "I live in Munich. Thanks!"
    Then the model gets "Hello!" as message 0
    When a person resolves the clash as "keep_older"
    And the user goes on with "Which doctor is near?"
    Then the model gets "I live in Berlin. Hello!" as message 0
    And the model gets "Thanks!" as message 2
    When a person resolves the clash as "dismiss"
    And the user goes on with "And which dentist?"
    Then the model gets what the client sent
    And no clash is found

  Scenario: Without the store nothing is taken out, and the verdict says so
    Given the store is away
    And the user said "I live in Berlin."
    And the assistant said "Noted."
    When the user says "I live in Munich."
    Then the model gets what the client sent
    And the verdict is error with the warning clash_unchecked

  Scenario: Where the policy refuses what it cannot check, it can be tried again
    Given nothing that cannot be checked passes
    And the store is away
    And the user said "I live in Berlin."
    And the assistant said "Noted."
    When the user says "I live in Munich."
    Then the request is refused with 503, to be tried again

  Scenario: Clashes are counted by type and strategy
    Given the user said "I live in Berlin. I prefer budget hotels."
    And the assistant said "Noted."
    When the user says "I live in Munich. I prefer luxury hotels."
    Then the counters are
      | clash.found_count                                     | 2 |
      | clash.found_conflicting_facts_count                   | 1 |
      | clash.found_contradictory_preferences_count           | 1 |
      | clash.auto_resolved_count                             | 2 |
      | clash.auto_resolved_prefer_recent_count               | 2 |

  Scenario: A reply to a question is counted as the user's
    Given the policy resolves clashes by ask_user
    And the user said "My budget is 500 €."
    And the assistant said "Noted."
    When the user says "My budget is 900 €."
    Then the counters are
      | clash.found_count | 1 |
      | clash.asked_count | 1 |
    When the user replies "2"
    Then the counters are
      | clash.user_resolved_count                           | 1 |
      | clash.user_resolved_contradictory_preferences_count | 1 |
