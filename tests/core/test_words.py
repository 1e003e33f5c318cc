"""What a schedule does, in one line of plain English."""

import pytest

from loam_lab.core.rule import Rule
from loam_lab.core.words import rule_in_words

DAY = 86_400_000
AT = 1_800_000_000_000


@pytest.mark.parametrize(
    ("cron", "said"),
    [
        ("30 2 * * mon-fri", "at 02:30 on Monday to Friday"),
        ("@daily", "at 00:00 every day"),
        ("0 9,17 * * *", "at 09:00 and 17:00 every day"),
        ("* * * * *", "every minute"),
        ("*/15 * * * *", "every 15 minutes"),
        ("*/15 8-10 * * *", "every 15 minutes of 8 to 10 o'clock"),
        ("*/5 1-3,7 * * *", "every 5 minutes of 1 to 3 and 7 o'clock"),
        ("7,9 * * * *", "at minute 7 and 9 of every hour"),
        ("7,9 */2 * * *", "at minute 7 and 9 of every 2nd hour"),
        ("7,9 */3 * * *", "at minute 7 and 9 of every 3rd hour"),
        ("*/2 */4 * * *", "every 2 minutes of every 4th hour"),
        ("0 6 1,2,3,15 * *", "at 06:00 on day 1 to 3 and 15 of the month"),
        ("0 0 13 * fri", "at 00:00 on day 13 of the month or on Friday"),
        ("0 0 */9 * 0", "at 00:00 on day 1, 10, 19 and 28 of the month, if it is Sunday"),
        ("0 12 1 1,7 *", "at 12:00 on day 1 of the month in January and July"),
        ("* * * 2 *", "every minute in February"),
        ("0 0 * * sat,sun", "at 00:00 on Saturday and Sunday"),
    ],
)
def test_a_cron_rule(cron, said):
    assert rule_in_words(Rule(cron=cron, zone="Europe/Berlin")) == f"{said}, Europe/Berlin"


@pytest.mark.parametrize(
    ("every_ms", "said"),
    [
        (3_600_000, "every hour"),
        (5_400_000, "every 1 hour 30 minutes"),
        (2 * DAY, "every 2 days"),
        (1_000, "every second"),
    ],
)
def test_an_interval_has_no_zone(every_ms, said):
    assert rule_in_words(Rule(every_ms=every_ms)) == said


def test_instants_are_shown_in_the_zone_and_counted():
    assert rule_in_words(Rule(at=(AT,))) == "once at 2027-01-15 08:00, UTC"
    assert rule_in_words(Rule(at=tuple(AT + n * DAY for n in range(5)), zone="Asia/Tokyo")) == (
        "once at 2027-01-15 17:00, 2027-01-16 17:00 and 2027-01-17 17:00 and 2 more, Asia/Tokyo"
    )


def test_bounds_are_said():
    assert rule_in_words(Rule(cron="@daily", start=AT, end=AT + DAY)) == (
        "at 00:00 every day, UTC, from 2027-01-15 08:00, until 2027-01-16 08:00"
    )
