"""Tokens for Amazon MSK with IAM; needs: pip install aws-msk-iam-sasl-signer-python

In the file of --kafka-config, with the folder of this file in PYTHONPATH and the region in AWS_REGION:

    security.protocol=SASL_SSL
    sasl.mechanism=OAUTHBEARER
    sasl.login.callback.handler.class=msk_token:token

The function is called at each login, on the thread that sends heartbeats: it must return in a second or two, or raise.
Credentials are those of the machine or pod, and may change at any time. For another issuer of tokens, return its token.
"""

import os

from aws_msk_iam_sasl_signer import MSKAuthTokenProvider


def token() -> str:
    """Return a new token, which is valid for 15 minutes; open connections log in again before it ends."""
    signed, _ = MSKAuthTokenProvider.generate_auth_token(os.environ["AWS_REGION"])
    return str(signed)
