"""What tests of extras share with those of the core."""

from tests.understudy.conftest import workspace as workspace
