"""Long words that a narrow column may break, at their joints and nowhere else.

customer_lifetime_value  breaks after customer_ and lifetime_
monthlyIncomeNet         breaks after monthly and Income
"""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markupsafe import Markup

#: the places after a sign that joins two words, and between a small letter and a capital
JOINT = re.compile(r"(?<=[_\-./:,;=+&|)\]])(?=[^\W_])|(?<=[a-zà-ÿ])(?=[A-ZÀ-Þ])|(?<=\w)(?=[(\[])")


def breakable(text: str) -> "Markup":
    """Return a text as HTML that may be broken at the joints of its words."""
    from markupsafe import Markup, escape

    return Markup("<wbr>").join(escape(part) for part in JOINT.split(text))
