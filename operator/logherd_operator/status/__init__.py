"""From a look and a plan to what people see: conditions, counts, what is under way and what waits for them.

Pure, and for display: nothing here is read back to decide anything, and nothing here asks anybody."""
