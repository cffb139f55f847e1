"""What tests of extras share with those of the core."""

from tests.reports.conftest import browser as browser
from tests.reports.conftest import evaluation as evaluation
from tests.reports.conftest import verdicts_of as verdicts_of
from tests.understudy.conftest import workspace as workspace
