"""The log adapter and, later, metric names.

Turns fixed messages and fields into log lines. Exports nothing by itself and never logs message bodies."""
