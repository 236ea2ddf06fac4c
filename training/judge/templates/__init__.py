"""Documents and statements made of templates that a language model wrote (``training/data/judge_templates.jsonl.gz``).

`reading` has the templates, `tables` and `topics` fill them in, any number of times. Which label a statement has follows from how it was
made. The exact rules over tables are measured on them, too (`benchmarks.records_values`): the templates' writers did not know these.
"""
