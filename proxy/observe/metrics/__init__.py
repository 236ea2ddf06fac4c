"""The figures behind ``/metrics`` (Prometheus) and ``/groundwire/v1/metrics`` (JSON).

In: every finished exchange (`Metrics.exchange`), every call of an upstream (`Metrics.upstream`), and the dotted counters that stages raise
(`Metrics.count`; `names` lists them). They are added up in plain numbers (`tally`) and handed to prometheus-client when somebody asks, or
once a second where several workers share their figures (`processes`). Out: the families in `families`, and `figures` made of them.
"""

from __future__ import annotations

from proxy.observe.metrics.registry import CONTENT_TYPE as CONTENT_TYPE
from proxy.observe.metrics.registry import Metrics as Metrics
