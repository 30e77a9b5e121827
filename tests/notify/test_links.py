"""Where the links of an incident lead."""

from fabricmon.notify.links import AFTER, IncidentLinks
from tests.notify.made import incident


def test_an_incident_of_a_node_leads_to_the_readings_of_that_node_from_an_hour_before():
    about = incident(component="link(host-007/mlx5_3/1, leaf-3/12)", since=10_000.0)
    url = IncidentLinks(dashboards="https://grafana.example/").dashboard(about)
    assert url == "https://grafana.example/d/fabricmon-node?var-node=host-007&from=6400000&to=now"


def test_readings_of_an_incident_that_is_over_end_a_while_after_it():
    over = incident(since=10_000.0, status="resolved", resolved=20_000.0)
    assert IncidentLinks(dashboards="https://g").dashboard(over).endswith(f"&to={round((20_000 + AFTER) * 1000)}")


def test_an_incident_of_more_than_a_node_leads_to_all_incidents():
    url = IncidentLinks(dashboards="https://grafana.example").dashboard(
        incident(component="leaf(su1/rail2)", since=0.0)
    )
    assert url == "https://grafana.example/d/fabricmon-incidents?from=0&to=now"


def test_an_incident_of_a_rail_leads_to_that_rail():
    about = incident(component="leaf(su1/rail2)", since=0.0, labels={"rail": "su1/2"})
    url = IncidentLinks(dashboards="https://grafana.example").dashboard(about)
    assert url == "https://grafana.example/d/fabricmon-rail?var-rail=su1%2F2&from=0&to=now"


def test_a_sites_own_dashboard_gets_what_its_address_names():
    links = IncidentLinks(dashboards="https://g/d/own?var-host={node}&var-what={component}&k={kind}&i={id}")
    about = incident(id="i 1", kind="link_down", component="link(a&b/mlx5_0/1)")
    assert (
        links.dashboard(about)
        == "https://g/d/own?var-host=a%26b&var-what=link%28a%26b%2Fmlx5_0%2F1%29&k=link_down&i=i%201"
    )


def test_an_address_that_asks_for_a_node_is_no_link_where_there_is_none():
    assert IncidentLinks(dashboards="https://g/{node}").dashboard(incident(component="rail(su1/6)")) == ""
    assert IncidentLinks().dashboard(incident()) == ""
