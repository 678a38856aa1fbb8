// SPDX-License-Identifier: Apache-2.0
#include "core/page/html_page.h"

namespace llmtrain {

const MarkupLiteral page_style = R"css(
:root { color-scheme: light dark;
  --page: #ffffff; --panel: #f6f7f9; --line: #dfe3e8; --text: #1c2127; --quiet: #5f6b7a; --good: #1a7f47; --notice: #9a6700; --bad: #c62f3b;
  --gather: #7b5cd6; --reduce: #d6336c; --send: #8a94a3; --receive: #b9c1cc; --step: #30363d; --hatch: #c9d0d8; --links: #2b8a9d; --adapters: #b0416b;
  --weights: #4e79a7; --master: #76a5c4; --optimizer: #a7c4dd; --gradients: #f28e2b; --activations: #59a14f;
  --buffers: #edc948; --communication: #e15759; --framework: #a0a7b0;
  --f0: #a8c8f0; --b0: #3b78c2; --f1: #f7cb9b; --b1: #d97f1e; --f2: #aadcb0; --b2: #37904a; --f3: #d3bfee; --b3: #8256bd;
  --f4: #f5b5bc; --b4: #cb4759; --f5: #9fdcd9; --b5: #258f8b; --f6: #f0df94; --b6: #a88a12; --f7: #dcc5b4; --b7: #8b684b; }
@media (prefers-color-scheme: dark) { :root {
  --page: #14171b; --panel: #1d2127; --line: #323942; --text: #e6e9ed; --quiet: #98a3b1; --good: #4cc380; --notice: #e0b04b; --bad: #ff6b74;
  --gather: #a48bff; --reduce: #ff6f9f; --send: #8a94a3; --receive: #5d6774; --step: #d5dae0; --hatch: #3b434d; --links: #4fb3c4; --adapters: #e07ba0;
  --weights: #5b8dc4; --master: #83b3d6; --optimizer: #b6d0e6; --framework: #7c858f; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 28px 32px 48px; max-width: 1240px; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
header { display: flex; gap: 24px; justify-content: space-between; align-items: flex-start; flex-wrap: wrap; }
h1 { margin: 0; font-size: 26px; line-height: 1.25; overflow-wrap: anywhere; }
h2 { margin: 0 0 4px; font-size: 17px; }
h3 { margin: 0; font-size: 13px; font-weight: 600; color: var(--quiet); }
a { color: inherit; } p { margin: 0; } header p, .note { color: var(--quiet); } .note { margin: 2px 0 10px; font-size: 14px; }
section { margin-top: 34px; }
code, pre { font: 13px/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; }
header .verdict { border: 1.5px solid var(--line); border-radius: 20px; padding: 6px 16px; font-weight: 600;
  color: var(--text); white-space: nowrap; }
header .verdict.good { color: var(--good); border-color: var(--good); }
header .verdict.tight { color: var(--notice); border-color: var(--notice); }
header .verdict.bad { color: var(--bad); border-color: var(--bad); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(165px, 1fr)); gap: 12px; margin-top: 20px; }
.card { background: var(--panel); border-radius: 10px; padding: 12px 16px; }
.card p { font-size: 13px; color: var(--quiet); }
.card .value { font-size: 24px; line-height: 1.35; font-weight: 650; color: var(--text); font-variant-numeric: tabular-nums; }
.split { display: flex; height: 26px; border-radius: 6px; overflow: hidden; gap: 1px; }
.split i { display: block; min-width: 1px; }
.error-bar { height: 6px; margin-top: 3px; border: 1.5px solid var(--quiet); border-top: 0; box-sizing: border-box; }
.shares { display: grid; grid-template-columns: repeat(auto-fill, minmax(330px, 1fr)); gap: 2px 36px; margin-top: 12px; }
.shares div { display: grid; grid-template-columns: 20px 1fr 80px 70px; align-items: center; }
.shares b, .shares b + span { text-align: right; font-variant-numeric: tabular-nums; font-weight: 600; }
.shares b + span { font-weight: 400; color: var(--quiet); }
.shares i, .key i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; }
.p0 { background: #3f9a57; } .p1 { background: #9dc76a; } .p2 { background: #edb340; } .p3 { background: #b4bcc6; }
.p4 { background: #e0645c; } .p5 { background: #7a68c4; } .p6 { background: #7d6b5d; }
.warnings { border-left: 4px solid #e0a52e; padding: 2px 0 2px 16px; } .warnings ul { margin: 4px 0 0; padding-left: 18px; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 0 0 8px; font-size: 13px; color: var(--quiet); }
.key { white-space: nowrap; } .key i { margin: 0 5px 0 0; vertical-align: -1px; } .key i + i { margin-left: -3px; }
.scroll { overflow-x: auto; }
svg { display: block; width: 100%; min-width: 620px; height: auto; } figure svg { min-width: 0; border-radius: 4px; }
svg text { font-size: 11px; fill: var(--quiet); font-variant-numeric: tabular-nums; }
svg .tick { text-anchor: start; } svg .name { text-anchor: end; } svg .row { fill: var(--panel); }
svg .page { fill: var(--page); } svg .cut { fill: url(#hatch); }
svg .on-light, svg .on-dark { text-anchor: middle; font-size: 9.5px; fill: #1c2127; pointer-events: none; }
svg .on-dark { fill: #ffffff; } svg .hidden { display: none; }
svg .found { fill: none; stroke: var(--text); stroke-width: 1.6; vector-effect: non-scaling-stroke; pointer-events: none; }
svg .grid { stroke: var(--line); stroke-width: 1; fill: none; }
svg .tight { fill: var(--notice); fill-opacity: 0.16; stroke: none; }
svg .limit { stroke: var(--bad); stroke-width: 1.5; stroke-dasharray: 6 4; fill: none; }
svg .limit-name { fill: var(--bad); text-anchor: end; font-weight: 600;
  paint-order: stroke; stroke: var(--page); stroke-width: 3px; stroke-linejoin: round; }
svg .mark { stroke: var(--quiet); stroke-width: 1.2; stroke-dasharray: 1.5 3; fill: none; }
svg .cursor { stroke: var(--text); stroke-width: 1; display: none; }
.f0 { fill: var(--f0); background: var(--f0); } .b0 { fill: var(--b0); background: var(--b0); }
.f1 { fill: var(--f1); background: var(--f1); } .b1 { fill: var(--b1); background: var(--b1); }
.f2 { fill: var(--f2); background: var(--f2); } .b2 { fill: var(--b2); background: var(--b2); }
.f3 { fill: var(--f3); background: var(--f3); } .b3 { fill: var(--b3); background: var(--b3); }
.f4 { fill: var(--f4); background: var(--f4); } .b4 { fill: var(--b4); background: var(--b4); }
.f5 { fill: var(--f5); background: var(--f5); } .b5 { fill: var(--b5); background: var(--b5); }
.f6 { fill: var(--f6); background: var(--f6); } .b6 { fill: var(--b6); background: var(--b6); }
.f7 { fill: var(--f7); background: var(--f7); } .b7 { fill: var(--b7); background: var(--b7); }
.gather { fill: var(--gather); background: var(--gather); } .reduce { fill: var(--reduce); background: var(--reduce); }
.send { fill: var(--send); background: var(--send); } .receive { fill: var(--receive); background: var(--receive); }
.step { fill: var(--step); background: var(--step); }
.links { fill: var(--links); background: var(--links); } .adapters { fill: var(--adapters); background: var(--adapters); }
.m-weights { fill: var(--weights); background: var(--weights); }
.m-master_weights { fill: var(--master); background: var(--master); }
.m-optimizer { fill: var(--optimizer); background: var(--optimizer); }
.m-gradients { fill: var(--gradients); background: var(--gradients); }
.m-activations { fill: var(--activations); background: var(--activations); }
.m-buffers { fill: var(--buffers); background: var(--buffers); }
.m-communication { fill: var(--communication); background: var(--communication); }
.m-framework { fill: var(--framework); background: var(--framework); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 430px), 1fr)); gap: 26px 30px; }
.charts figure { min-width: 0; } .charts .note { margin-bottom: 6px; } svg .middle { text-anchor: middle; }
svg .line { fill: none; stroke-width: 1.8; stroke-linejoin: round; } svg .raw { fill: none; stroke-width: 1; opacity: .35; }
.controls { display: flex; flex-wrap: wrap; gap: 4px 26px; margin: 30px 0 -18px; font-size: 13px; color: var(--quiet); }
.controls input { vertical-align: -3px; margin: 0 4px; accent-color: var(--b0); } .controls input[type=range] { width: 120px; }
.small-charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(130px, 1fr)); gap: 12px; margin-top: 14px; }
figure { margin: 0; } figcaption { font-size: 12px; color: var(--quiet); font-variant-numeric: tabular-nums; }
table { border-collapse: collapse; width: 100%; font-size: 13px; font-variant-numeric: tabular-nums; }
th { color: var(--quiet); font-weight: 600; vertical-align: bottom; }
th, td { padding: 5px 8px; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
thead th { white-space: normal; } th:first-child, td:first-child { padding-left: 0; }
.words-2 :is(th, td):nth-child(-n+2), .words-3 :is(th, td):nth-child(-n+3), .words-0 :is(th, td):last-child { text-align: left; }
.reason { display: inline-block; max-width: 300px; white-space: normal; } .prose { white-space: normal; }
.meter { display: block; height: 4px; min-width: 70px; border-radius: 2px; background: var(--line); overflow: hidden; }
.meter i { display: block; height: 100%; background: var(--good); } .meter.over i { background: var(--bad); }
.zoom { float: right; } .zoom[hidden] { display: none; }
.zoom button { font: inherit; font-size: 13px; font-weight: 500; color: var(--text); background: var(--panel);
  border: 1px solid var(--line); border-radius: 6px; padding: 2px 10px; margin-left: 6px; cursor: pointer; }
details summary { cursor: pointer; color: var(--quiet); } pre { overflow-x: auto; background: var(--panel); padding: 14px; border-radius: 8px; }
#tip { position: fixed; z-index: 2; pointer-events: none; background: var(--text); color: var(--page); border-radius: 6px;
  padding: 6px 10px; font-size: 13px; line-height: 1.4; white-space: pre-wrap; font-variant-numeric: tabular-nums;
  max-width: calc(100vw - 16px); }
#tip[hidden] { display: none; } footer { margin-top: 36px; color: var(--quiet); font-size: 13px; }
/* Charts that keep their shape get smaller; their texts must not. */
@media screen and (max-width: 900px) { svg.whole { min-width: 0; overflow: visible; } svg.whole text { font-size: 15px; }
  .scroll:has(> svg.whole) { overflow: visible; } }
@media screen and (max-width: 700px) { body { padding: 18px 16px 32px; } svg.whole text { font-size: 18px; }
  .shares { grid-template-columns: 1fr; } .zoom { float: none; display: block; margin: 6px 0 2px; } .zoom button:first-child { margin-left: 0; } }
@page { size: A4 landscape; margin: 12mm; }
@media print { :root { --page: #ffffff; --text: #1c2127; --quiet: #5f6b7a; --panel: #f2f4f6; --line: #d5dae0; }
  body { max-width: none; padding: 0; font-size: 12px; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  .cards { grid-template-columns: repeat(6, 1fr); } .card { padding: 8px 10px; } .card .value { font-size: 19px; }
  .zoom { display: none; } section { break-inside: avoid; } .scroll { overflow: visible; }
  svg, table { min-width: 0; } th, td { padding: 3px 6px; font-size: 10.5px; } }
)css";

}  // namespace llmtrain
