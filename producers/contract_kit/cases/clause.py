"""The mark of a case: `@case(clause, *needs, mend=...)`; the docstring of the test is the promise."""

import pytest

case = pytest.mark.contract
