"""The figures behind ``/metrics`` (Prometheus) and ``/groundwire/v1/metrics`` (JSON).

In: every finished exchange (`Metrics.exchange`), every call of an upstream (`Metrics.upstream`), and the dotted counters that stages raise
(`Metrics.count`; `families` lists them). They are added up in plain numbers (`counts`), which prometheus-client writes when somebody asks;
several workers share them in files. Out: the families in `families`, and `figures` made of them.
"""

from __future__ import annotations

from proxy.observe.metrics.registry import CONTENT_TYPE as CONTENT_TYPE
from proxy.observe.metrics.registry import Metrics as Metrics
