// Why a client gets an answer. Nothing is asked upstream for it, and nothing is counted.

import { get, parameters } from "./api.js";
import { byId, element, field, fill, form, heading } from "./dom.js";
import { duration, micros } from "./format.js";

const REASONS = {
  access_list: "the access list ([acl])",
  run_time: "a name or record of run time",
  local_records: "local records",
  policy_zone: "a policy zone",
  block_list: "a block list",
  minimal_any: "answers.minimal_any",
  cache: "an answer in the cache",
  cached_nxdomain: "NXDOMAIN in the cache for a name above",
  redirect: "the name does not exist, and is redirected",
  stale_answer: "an expired answer, because the upstreams failed",
  recent_failure: "a failure a moment ago, which is remembered",
  upstreams: "the upstreams",
};

/** Makes the panel. Returns what looks the name of an entry of the log up in it. */
export function lookupPanel() {
  // The entry that is looked up, until the operator types something else.
  let entry = null;
  const result = element("div", { id: "lookup-result", "aria-live": "polite" });
  const input = (name, more) => element("input", { name, spellcheck: "false", autocapitalize: "none", ...more });
  const ask = form({}, async (values) => {
    const asked = { name: values.name.trim(), type: values.type.trim(), client: values.client.trim() };
    const logged = entry;
    try {
      const report = await get(`/api/v1/lookup${parameters(asked)}`);
      fill(result, logged && doubts(logged, report), explanation(report));
    } catch (refused) {
      fill(result, element("p", { class: "error" }, `✕ ${refused.message}`));
    }
  },
  field("Name", input("name", { required: true, placeholder: "www.example.com", class: "search" })),
  field("Type", input("type", { value: "A", size: "6" })),
  field("Client", input("client", { placeholder: "any client in no view" })),
  element("button", { type: "submit" }, "Why?"));
  fill(byId("lookup"), heading("Why does this client get this answer?"), ask, result);
  ask.addEventListener("input", () => { entry = null; });
  return (row) => {
    entry = row;
    ask.elements.name.value = row.name;
    ask.elements.type.value = row.type;
    ask.elements.client.value = row.isWhole ? row.client : "";
    ask.requestSubmit();
    ask.scrollIntoView({ block: "nearest" });
  };
}

/** Why it may be another answer than the logged one: it is for another client, or for another view. */
function doubts({ client, isWhole, view }, report) {
  const found = [];
  if (!isWhole) found.push(`The log has ${client} in place of the address. This is for a client in no view. Type the address in.`);
  const then = view || "default";
  if (then !== report.view) found.push(`The query was in view ${then}, and this is for view ${report.view}.`);
  return found.map((text) => element("p", { class: "error" }, `▲ ${text}`));
}

function explanation(report) {
  const facts = [["answer", answerOf(report)], ["reason", REASONS[report.decided_by] ?? report.decided_by], ["view", report.view]];
  const { rule, cached, upstream } = report;
  if (rule) facts.push(["rule", ruleText(rule)]);
  if (cached) {
    const age = `came ${duration(cached.age_seconds)} ago`;
    const left = cached.is_stale ? "has expired" : `expires in ${duration(cached.ttl_left_seconds)}`;
    facts.push(["cache", [age, left, cached.validation?.replaceAll("_", " ")].filter(Boolean).join(", ")]);
  }
  if (upstream) {
    const each = upstream.upstreams.map((one) => one.address + (one.is_resting ? " (rests)" : ` (${micros(one.srtt_us)})`));
    facts.push(["group", `${upstream.group}: ${each.join(", ")}`]);
  }
  report.records.forEach((record, index) => facts.push([index === 0 ? "records" : "", record]));
  return element("dl", { class: "facts" }, facts.map(([name, text]) => [element("dt", {}, name), element("dd", {}, text)]));
}

function answerOf(report) {
  if (report.rcode) return report.rcode + (report.truncated ? ", truncated" : "");
  return report.decided_by === "upstreams" ? "not known yet" : "none, the query is dropped";
}

function ruleText(rule) {
  const place = [rule.file ?? "the configuration", rule.line && `line ${rule.line}`].filter(Boolean).join(", ");
  return [rule.listed, place, rule.note].filter(Boolean).join(" · ");
}
