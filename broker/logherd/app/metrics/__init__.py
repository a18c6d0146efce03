"""What a scrape reads of a broker or a controller, and how that is written down. It only reads."""
