"""The log adapter, and the names of all metrics.

Turns fixed messages and fields into log lines. Exports nothing by itself and never logs message bodies."""
