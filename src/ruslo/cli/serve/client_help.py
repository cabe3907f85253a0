"""What ``ruslo dev --secure`` prints besides the address: the files of its clients, and how to use them."""

from __future__ import annotations

from ruslo.cli.serve.client_files import MECHANISM
from ruslo.cli.serve.secured_cluster import SecuredCluster
from ruslo.cli.serve.secured_properties import ADMIN, ORDINARY_USER


def file_lines(secured: SecuredCluster) -> list[str]:
    """Lines for stdout, which may be a log file: paths, no passwords."""
    return [f"client.properties.{each.user}={each.java}" for each in secured.clients]


def files_as_json(secured: SecuredCluster) -> dict[str, object]:
    return {
        "ssl.ca.location": str(secured.ca_file),
        "client.properties": {each.user: str(each.java) for each in secured.clients},
        "librdkafka.properties": {each.user: str(each.librdkafka) for each in secured.clients},
    }


def terminal_help(secured: SecuredCluster, bootstrap: str) -> str:
    """Ready settings for each kind of client. The passwords are for the login at the web console."""
    admin, user = secured.files_of(ADMIN), secured.files_of(ORDINARY_USER)
    return f"""
The cluster uses TLS, {MECHANISM} and ACLs. Files with settings and passwords are in {secured.folder}
  {ADMIN}  a super user, password {secured.password(ADMIN).reveal()}
  {ORDINARY_USER}  a user without permissions, password {secured.password(ORDINARY_USER).reveal()}

ruslo:
  ruslo topic create orders --command-config {admin.java}
  ruslo acl allow User:{ORDINARY_USER} write topic:orders --command-config {admin.java}
  echo hello | ruslo produce orders --command-config {user.java}
Java, with the settings in {user.java}, and Kafka's tools:
  kafka-topics.sh --describe --bootstrap-server {bootstrap} --command-config {admin.java}
librdkafka:
  kcat -F {user.librdkafka} -L
Python:
  with open("{user.librdkafka}") as file:
      settings = dict(line.rstrip("\\n").split("=", 1) for line in file)
  producer = ruslo.Producer(settings)
Spark:
  .option("kafka.bootstrap.servers", "{bootstrap}")
  .option("kafka.security.protocol", "SASL_SSL")
  .option("kafka.sasl.mechanism", "{MECHANISM}")
  .option("kafka.ssl.truststore.location", "{secured.ca_file}")
  .option("kafka.ssl.truststore.type", "PEM")
  .option("kafka.sasl.jaas.config", "${{file:{user.java}:sasl.jaas.config}}")
"""
