"""A real S3 server on this machine, and buckets in it."""

import json
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest


@dataclass(frozen=True)
class Bucket:
    """A bucket of its own for a test; processes that a test starts reach it, too."""

    name: str
    client: Any  #: of boto3
    endpoint: str  #: host and port

    @property
    def url(self) -> str:
        """Its URL, without a / at the end."""
        return f"s3://{self.name}"

    @property
    def keys(self) -> list[str]:
        """The names of all objects, but for the empty ones that stand for folders."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        every = [each["Key"] for page in pages for each in page.get("Contents", ())]
        return [key for key in every if not key.endswith("/")]

    def put(self, key: str, content: bytes | str = b"") -> str:
        """Write an object, and return its URL."""
        self.client.put_object(Bucket=self.name, Key=key, Body=content)
        return f"{self.url}/{key}"

    def put_many(self, keys: Iterable[str]) -> None:
        """Write small objects, past the server, which takes milliseconds for each."""
        from moto.s3.models import s3_backends

        backend = s3_backends["123456789012"]["aws"]
        for key in keys:
            backend.put_object(self.name, key, b"x")

    def get(self, key: str) -> bytes:
        """Read an object."""
        content: bytes = self.client.get_object(Bucket=self.name, Key=key)["Body"].read()
        return content

    def deny(self, *actions: str) -> None:
        """Refuse some actions from now on, such as s3:PutObject."""
        place = f"arn:aws:s3:::{self.name}"
        rule = {
            "Effect": "Deny", "Principal": "*", "Action": actions,
            "Resource": [place, f"{place}/*"],
        }  # fmt: skip
        policy = json.dumps({"Version": "2012-10-17", "Statement": [rule]})
        self.client.put_bucket_policy(Bucket=self.name, Policy=policy)

    def allow(self) -> None:
        """Refuse nothing any more."""
        self.client.delete_bucket_policy(Bucket=self.name)


@contextmanager
def s3_server() -> Iterator[tuple[Any, str]]:
    """Start a server on the loopback address; yield boto3's client, and host and port.

    The environment names the server, so that pyarrow finds it in every process.
    """
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for each request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in options.items():
            patch.setenv(name, value)
        import boto3

        yield boto3.client("s3"), f"{host}:{port}"
    server.stop()


def new_bucket(server: tuple[Any, str]) -> Bucket:
    """Make a bucket."""
    client, endpoint = server
    bucket = Bucket(f"bucket-{uuid4().hex[:12]}", client, endpoint)
    client.create_bucket(Bucket=bucket.name)
    return bucket
