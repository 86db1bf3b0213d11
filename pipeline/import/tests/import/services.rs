//! What dnsdist does beside its rules about names: rules about ANY, its web server, and proxies.

use pmdns_import::ServerKind;

use crate::settings::{Case, PLAIN, hold};

const DNSDIST: &[Case] = &[
    // dnsdist refuses, drops or answers these, and here they get HINFO.
    Case {
        text: "newServer('192.0.2.1')\naddAction(QTypeRule(DNSQType.ANY), RefusedAction())\n\
               addAction(QTypeRule('ANY'), DropAction())\naddAction(QTypeRule(DNSQType.ANY), RCodeAction(DNSRCode.NOTIMP))\n\
               addAction(QTypeRule(DNSQType.ANY), SpoofAction('192.0.2.7'))\n\
               addAction(QTypeRule(DNSQType.ANY), SpoofCNAMEAction('a.example'))\n\
               addAction(QTypeRule(DNSQType.ANY), TCAction())\naddAction(QTypeRule(DNSQType.ANY), AllowAction())\n",
        listed: &[
            "RefusedAction())`: queries of type ANY",
            "DropAction())`: queries of type ANY",
            "RCodeAction(DNSRCode.NOTIMP))`: queries of type ANY",
            "SpoofAction('192.0.2.7'))`: queries of type ANY",
            "SpoofCNAMEAction('a.example'))`: queries of type ANY",
            "TCAction())`: queries of type ANY",
            "AllowAction())`: queries of type ANY",
        ],
        ..PLAIN
    },
    Case {
        text: "newServer('192.0.2.1')\nnewServer({address='192.0.2.2', pool='any'})\n\
               addAction(QTypeRule(DNSQType.ANY), PoolAction('any'))\naddAction(QTypeRule(DNSQType.ANY), LuaAction(f))\n",
        decisive: &["PoolAction('any')", "LuaAction(f)"],
        ..PLAIN
    },
    // Counters are open to whoever reaches the address; dnsdist has a password and an access list.
    Case {
        text: "webserver('127.0.0.1:8083')\nsetWebserverConfig({statsRequireAuthentication=false, customHeaders={}})\n",
        has: &["\nlisten = \"127.0.0.1:8083\""],
        listed: &["metrics alone"],
        ..PLAIN
    },
    Case {
        text: "webserver('[::1]:8083', 'x', 'y', {}, '10.0.0.0/8')\n",
        has: &["\nlisten = \"[::1]:8083\""],
        listed: &["asks for no password", "are `[[token]]`", "has no access list"],
        ..PLAIN
    },
    Case {
        text: "webserver('0.0.0.0:8083')\nsetWebserverConfig({password='x', apiKey='y', acl='10.0.0.0/8'})\n",
        has: &["\n# listen = \"0.0.0.0:8083\""],
        lacks: &["\nlisten"],
        listed: &[
            "everyone who can connect",
            "asks for no password",
            "are `[[token]]`",
            "has no access list",
        ],
        ..PLAIN
    },
    Case {
        text: "webserver('192.0.2.53:8083')\nsetWebserverConfig(options)\n",
        lacks: &["\nlisten"],
        listed: &["everyone who can connect", "asks for no password", "has no access list"],
        ..PLAIN
    },
    // dnsdist answers all clients of these proxies, whatever `setACL` says.
    Case {
        text: "newServer('192.0.2.1')\nsetACL('10.0.0.0/8')\nsetProxyProtocolACL({'192.0.2.0/24'})\n",
        has: &["proxy_protocol = [\"192.0.2.0/24\"]"],
        decisive: &["`[acl]` is about the clients in the headers"],
        listed: &["not over UDP"],
        ..PLAIN
    },
    Case {
        text: "newServer('192.0.2.1')\nsetProxyProtocolApplyACLToProxiedClients(true)\n\
               setProxyProtocolACL('203.0.113.1')\nsetProxyProtocolACL('192.0.2.1')\n",
        has: &["proxy_protocol = [\"192.0.2.1/32\"]"],
        listed: &["not over UDP"],
        ..PLAIN
    },
    Case {
        text: "setProxyProtocolApplyACLToProxiedClients(false)\nsetProxyProtocolACL({'192.0.2.0/24', '!192.0.2.9'})\n",
        decisive: &["`!192.0.2.9` is no network", "`[acl]` is about"],
        ..PLAIN
    },
    Case { text: "setProxyProtocolACL({})\n", ..PLAIN },
];

#[test]
fn services_of_dnsdist_are_taken_over_or_listed() {
    hold(DNSDIST, ServerKind::Dnsdist);
}
