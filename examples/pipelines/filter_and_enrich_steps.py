"""The Python step of filter_and_enrich.yaml; its parameter is the view that it reads."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

COUNTRIES = {"de": "Germany", "fr": "France", "rs": "Serbia"}


def with_country(paid: DataFrame) -> DataFrame:
    countries = F.create_map(*(F.lit(word) for pair in COUNTRIES.items() for word in pair))
    country = F.try_element_at(countries, F.substring("shop", 1, 2))
    return paid.withColumn("country", F.coalesce(country, F.lit("unknown")))
