"""PCI addresses in kernel messages, as sysfs writes them."""

import pytest

from fabricmon.collect.parse.kernel_events import short


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("00000000:17:00.0", "0000:17:00.0"),
        ("0001:4B:00.0", "0001:4b:00.0"),
        ("17:00.0", "17:00.0"),
        ("0.00:17:00", "0.00:17:00"),  # no domain: the text of a device that is not on the PCI bus
        (":17:00.0", ":17:00.0"),
        ("", ""),
    ],
)
def test_an_address_has_four_digits_of_domain_and_other_text_stays(address: str, expected: str) -> None:
    assert short(address) == expected
