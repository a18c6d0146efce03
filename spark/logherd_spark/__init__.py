"""Spark's data source `logherd`: batch and streaming, reading and writing, through a group's leader.

What belongs here: options, planning of ranges, Arrow to and from the wire, a small blocking client. Tasks speak the
wire themselves (`logherd.wire`), and need nothing else of the broker; Spark stays in `source`, `reading` and `writing`.
"""

__all__: list[str] = []
