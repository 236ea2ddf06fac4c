"""Summaries of the older part of a conversation: extractive, or an LLM's that was checked against what it covers."""

from proxy.context.summaries.lines import is_summary, summary_message, summary_text
from proxy.context.summaries.summariser import Summariser, SummariserOptions, Summary

__all__ = ["Summariser", "SummariserOptions", "Summary", "is_summary", "summary_message", "summary_text"]
