"""Carries out looking managers up in DNS: SRV records of `_tandemq._tcp.<manager>.<domain>`. It never writes.

The records of one priority are the members of one manager; a higher number is another manager, tried when the first
cannot be reached. An alias is a CNAME of the record's name.
"""

from __future__ import annotations

from collections.abc import Mapping

import dns.asyncresolver
import dns.exception
import dns.inet
import dns.name
import dns.nameserver
import dns.rdatatype
import dns.rdtypes.IN.SRV
import dns.resolver

from tandemq.client.target import is_port
from tandemq.finding.resolver import Answer, BadEntry, Manager, Resolver, ResolverAway

SERVICE = "_tandemq._tcp"
LIFETIME_S = 2.5  # of one question with all its repetitions; within the directory's patience


class DnsResolver(Resolver):
    """Asks the machine's name servers, or `nameservers` ("10.0.0.1", "10.0.0.2:5353")."""

    def __init__(self, domain: str, nameservers: tuple[str, ...] = (), *, lifetime_s: float = LIFETIME_S) -> None:
        self._lifetime_s = lifetime_s
        try:
            self._domain = dns.name.from_text(f"{domain.rstrip('.')}.")
        except dns.exception.DNSException as error:
            raise BadEntry(f"domain = {domain!r}: is no DNS name: {error}") from error
        self.source = f"dns {domain}" + (f" at {','.join(nameservers)}" if nameservers else "")
        servers = [_server(each) for each in nameservers]
        try:
            self._resolver = dns.asyncresolver.Resolver(configure=not servers)
        except dns.resolver.NoResolverConfiguration as error:
            raise BadEntry(f"no name server is known here ({error}); set nameservers") from error
        if servers:
            self._resolver.nameservers = servers

    async def resolve(self, name: str) -> Answer | None:
        try:
            prefix = dns.name.from_text(f"{SERVICE}.{name}", origin=None)
            asked = prefix.concatenate(self._domain)
        except dns.exception.DNSException:
            return None  # no DNS name at all, so nobody has it
        try:
            found = await self._resolver.resolve(asked, dns.rdatatype.SRV, lifetime=self._lifetime_s, search=False)
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
            return None
        except (dns.resolver.YXDOMAIN, dns.exception.DNSException, OSError) as error:
            raise ResolverAway(str(error) or type(error).__name__) from error
        ttl_s = float(found.chaining_result.minimum_ttl)
        called = self._called(found.canonical_name)
        if called and called != name.lower():
            return Answer(alias_of=called, ttl_s=ttl_s)
        groups: dict[int, list[dns.rdtypes.IN.SRV.SRV]] = {}
        for record in found:
            if record.target != dns.name.root:  # "." says that there is no such service
                groups.setdefault(record.priority, []).append(record)
        managers = tuple(_manager(name, priority, records) for priority, records in sorted(groups.items()))
        return Answer(managers, ttl_s=ttl_s) if managers else None

    def _called(self, canonical: dns.name.Name) -> str:
        """The manager's own name, where CNAMEs led within the domain; empty elsewhere."""
        if not canonical.is_subdomain(self._domain):
            return ""
        relative = canonical.relativize(self._domain).to_text()
        return relative.lower().removeprefix(f"{SERVICE}.") if relative.lower().startswith(f"{SERVICE}.") else ""


def make(options: Mapping[str, object]) -> DnsResolver:
    """From a section with the key `domain`, and perhaps `nameservers`."""
    if unknown := options.keys() - {"domain", "nameservers"}:
        raise BadEntry(f"unknown key {min(unknown)}; known here: domain, nameservers")
    domain, nameservers = options.get("domain"), options.get("nameservers", [])
    if not isinstance(domain, str) or not domain:
        raise BadEntry(f'domain = {domain!r}: give a domain in quotes, for example domain = "example.com"')
    if not isinstance(nameservers, list) or not all(isinstance(each, str) for each in nameservers):
        raise BadEntry(f'nameservers = {nameservers!r}: give a list in quotes, for example ["10.0.0.1"]')
    return DnsResolver(domain, tuple(nameservers))


def _server(text: str) -> dns.nameserver.Do53Nameserver:
    host, colon, port = text.rpartition(":")
    if not colon or (":" in host and not host.startswith("[")):  # no port, or an IPv6 address without one
        host, port = text, "53"
    host = host.strip("[]")
    if not dns.inet.is_address(host) or not is_port(port):
        raise BadEntry(f"nameservers: {text!r} is not an IP address, or address:port")
    return dns.nameserver.Do53Nameserver(host, int(port))


def _manager(name: str, priority: int, records: list[dns.rdtypes.IN.SRV.SRV]) -> Manager:
    """The heavier record first: the weight is what an operator has to say which member is nearer."""
    ordered = sorted(records, key=lambda record: (-record.weight, record.target, record.port))
    endpoints = tuple(f"{record.target.to_text(omit_final_dot=True)}:{record.port}" for record in ordered)
    return Manager(name, endpoints, priority)
