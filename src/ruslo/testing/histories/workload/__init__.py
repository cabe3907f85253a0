"""Writers and readers over librdkafka that leave a history behind, for any system that speaks Kafka.

Begin with ``crew.Crew``.
"""
