"""A store with the files of a folder in the bucket `bucket`, and 55 small objects in the bucket `many`. It prints its port and
the keys of a user who may read, and runs until its input ends. Everything that is asked for afterwards must be signed."""

import json
import os
import pathlib
import sys

folder = pathlib.Path(sys.argv[1])
files = [path for path in folder.rglob("*") if path.is_file()]
MANY = 55
# How many objects an answer names.
os.environ["MOTO_S3_DEFAULT_MAX_KEYS"] = "20"
# What is done here is not checked: the user, the key, the rights, two buckets, the objects.
os.environ["INITIAL_NO_AUTH_ACTION_COUNT"] = str(5 + len(files) + MANY)

import boto3
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
port = server.get_host_and_port()[1]
options = dict(
    endpoint_url=f"http://127.0.0.1:{port}",
    region_name="us-east-1",
    aws_access_key_id="initial",
    aws_secret_access_key="initial",
)
users = boto3.client("iam", **options)
users.create_user(UserName="reader")
rights = {"Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}], "Version": "2012-10-17"}
users.put_user_policy(UserName="reader", PolicyName="reads", PolicyDocument=json.dumps(rights))
key = users.create_access_key(UserName="reader")["AccessKey"]
store = boto3.client("s3", **options)
store.create_bucket(Bucket="bucket")
for path in files:
    store.put_object(Bucket="bucket", Key=str(path.relative_to(folder)), Body=path.read_bytes())
store.create_bucket(Bucket="many")
for number in range(MANY):
    store.put_object(Bucket="many", Key=f"{number:05}.csv", Body=f"id\n{number}\n".encode())
print(port, key["AccessKeyId"], key["SecretAccessKey"], flush=True)
sys.stdin.read()
