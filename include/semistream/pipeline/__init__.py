"""From one spec to exactly-once facts: spec, master versions, lease, ledger and sinks.

Nothing here knows Spark or Airflow; both call it.
"""
