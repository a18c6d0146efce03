"""The page that `flights.py` writes: a table, when the rows were stored, and how late the worst routes were.

It stands alone: no script, nothing from elsewhere, drawn in SVG.
"""

import html
from collections.abc import Iterable, Sequence
from typing import NamedTuple

__all__ = ["Mean", "Route", "page", "worst"]

WORST = 6
BUCKET_MS = 100
WIDTH, HEIGHT = 860, 240
LEFT, RIGHT, TOP, BOTTOM = 60, 20, 16, 26
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 60em; padding: 0 1em; color: #1d2433 }
h1 { font-size: 1.6em } h2 { font-size: 1.1em; margin-top: 2em }
table { border-collapse: collapse } td { padding: .2em 2em .2em 0; border-bottom: 1px solid #dde1ea }
td + td { text-align: right; font-variant-numeric: tabular-nums }
svg { width: 100%; height: auto; font-size: 12px } text { fill: #5a6478 } .key span { margin-right: 1.2em }
"""


class Mean(NamedTuple):
    """One route in one window: when that began (YYYY-MM-DD), mean delay in minutes, number of flights."""

    route: str
    begin: str
    delay: float
    flights: int


class Route(NamedTuple):
    """A route over the whole year: mean delay in minutes, number of flights."""

    name: str
    delay: float
    flights: int


def worst(means: Iterable[Mean], *, flights_min: int = 300) -> list[Route]:
    """The routes with the longest mean delay, of those with flights enough to mean something."""
    sums: dict[str, tuple[float, int]] = {}
    for each in means:
        total, flown = sums.get(each.route, (0.0, 0))
        sums[each.route] = total + each.delay * each.flights, flown + each.flights
    ranked = [Route(name, total / flown, flown) for name, (total, flown) in sums.items() if flown >= flights_min]
    return sorted(ranked, key=lambda each: -each.delay)[:WORST]


def page(
    rows: Iterable[tuple[str, str]],
    means: Sequence[Mean],
    routes: Sequence[Route],
    times: Sequence[tuple[int, int]],
    *,
    killed_ms: int | None = None,
) -> str:
    """The whole page. `times` are (ms since 1970, rows stored); at `killed_ms` the leader was killed."""
    cells = "\n".join(f"<tr><td>{html.escape(a)}</td><td>{html.escape(b)}</td></tr>" for a, b in rows)
    key = " ".join(
        f'<span style="color:{_colour(number, len(routes))}">{html.escape(each.name)}</span>'
        for number, each in enumerate(routes)
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"/><title>Flights from New York, 2013</title>\n'
        f"<style>{STYLE}</style></head><body>\n<h1>Flights from New York, 2013</h1>\n<table>\n{cells}\n</table>\n"
        f"<h2>Rows stored, each {BUCKET_MS} ms</h2>\n{_stored(times, killed_ms)}\n"
        f'<h2>Mean delay at departure in minutes, each 30 days</h2>\n<p class="key">{key}</p>\n'
        f"{_late(means, routes)}\n</body></html>\n"
    )


def _stored(times: Sequence[tuple[int, int]], killed_ms: int | None) -> str:
    if not times:
        return "<p>none</p>"
    first = times[0][0]
    buckets: dict[int, int] = {}
    for moment, count in times:
        bucket = (moment - first) // BUCKET_MS
        buckets[bucket] = buckets.get(bucket, 0) + count
    last, top = max(buckets) + 1, max(buckets.values())
    width = (WIDTH - LEFT - RIGHT) / last
    drawn = [
        f'<rect x="{_x(at / last):.1f}" y="{_y(count / top):.1f}" width="{max(width * 0.85, 0.6):.1f}" '
        f'height="{HEIGHT - BOTTOM - _y(count / top):.1f}" fill="#4a7bd0"/>'
        for at, count in sorted(buckets.items())
    ]
    if killed_ms is not None:
        x = _x(min(max((killed_ms - first) / (last * BUCKET_MS), 0), 1))
        drawn.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#c33" />')
        drawn.append(f'<text x="{x + 5:.1f}" y="{TOP + 10}" style="fill:#c33">leader killed</text>')
    return _frame(drawn, f"{top:,}", "0 s", f"{last * BUCKET_MS / 1000:.1f} s")


def _late(means: Sequence[Mean], routes: Sequence[Route]) -> str:
    begins = sorted({each.begin for each in means})
    names = [each.name for each in routes]
    chosen = [each for each in means if each.route in names]
    if not chosen:
        return "<p>none</p>"
    top = max(1.0, *(each.delay for each in chosen))
    drawn = []
    for number, name in enumerate(names):
        points = " ".join(
            f"{_x(begins.index(each.begin) / max(len(begins) - 1, 1)):.0f},{_y(max(each.delay, 0) / top):.0f}"
            for each in chosen
            if each.route == name
        )
        drawn.append(
            f'<polyline points="{points}" fill="none" stroke="{_colour(number, len(names))}" stroke-width="2">'
            f"<title>{html.escape(name)}</title></polyline>"
        )
    return _frame(drawn, f"{top:.0f}", begins[0], begins[-1])


def _frame(drawn: Iterable[str], top: str, first: str, last: str) -> str:
    floor = HEIGHT - BOTTOM
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img"><line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{floor}" '
        f'y2="{floor}" stroke="#aab2c2"/>\n' + "\n".join(drawn) + "\n"
        f'<text x="{LEFT - 8}" y="{TOP + 4}" text-anchor="end">{top}</text>'
        f'<text x="{LEFT - 8}" y="{floor}" text-anchor="end">0</text><text x="{LEFT}" y="{HEIGHT - 6}">{first}</text>'
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end">{last}</text></svg>'
    )


def _x(share: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * share


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share


def _colour(number: int, of: int) -> str:
    return f"hsl({360 * number // max(of, 1)} 60% 42%)"
