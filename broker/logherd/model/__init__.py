"""Values of the field: positions, offsets, names, the record layout, the root of the errors.

Pure and immutable. Knows no socket, file, clock or setting; RocketMQ header spellings stay in wire."""
