"""Random requests against the OpenAPI description: no 5xx, and every answer is as it is described."""

from __future__ import annotations

import contextlib

import pytest
import schemathesis
from hypothesis import settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from gappletron import interpreted
from gappletron.service import openapi
from gappletron.service.app import create_app
from gappletron.service.models import HostedModel
from servers import mail_model, running, vector_model

records = schemathesis.openapi.from_dict(openapi.describe_service(needs_token=False, takes_records=True))
vectors = schemathesis.openapi.from_dict(openapi.describe_service(needs_token=False, takes_records=False))


@pytest.fixture(scope="module")
def addresses(tmp_path_factory):
    """Of a server whose first model takes records, and of one whose first model takes vectors.

    Their rounds are interpreted: random requests add classes, and for each fourth there would be much to compile.
    """
    folder = tmp_path_factory.mktemp("models")
    with contextlib.ExitStack() as stack:
        found = []
        for number, opened in enumerate((mail_model, vector_model)):
            with interpreted():
                model = stack.enter_context(opened(folder / str(number), durability="os"))
            found.append(stack.enter_context(running(create_app([HostedModel("mail", model)]))))
        yield found


def validate(case, address):
    """All checks of schemathesis: status codes, content types and bodies as described, nothing invalid is accepted,
    other methods are refused, no 5xx. What is valid may still be 422 (an index that is too large); and what a model
    with a name takes is not known from its address.
    """
    answer = case.call(base_url=address)
    may_be_refused = answer.status_code == 422 or "{name}" in case.operation.path
    case.validate_response(answer, excluded_checks=[positive_data_acceptance] if may_be_refused else [])


@records.parametrize()
@settings(max_examples=15)
def test_random_requests_with_records(case, addresses):
    validate(case, addresses[0])


@vectors.include(path_regex="^/v1/(act|predict)").parametrize()
@settings(max_examples=15)
def test_random_requests_with_vectors(case, addresses):
    validate(case, addresses[1])
