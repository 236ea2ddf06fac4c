"""The once-per-server surface: health, metrics, the operator's API under ``/groundwire`` and the dashboard page."""
