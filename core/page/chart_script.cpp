// SPDX-License-Identifier: Apache-2.0
#include "core/page/line_chart.h"

namespace llmtrain {

// The points are those of the drawn paths, so the page holds them once, whatever chart_controls_script makes of them.
const MarkupLiteral chart_script = R"js(
"use strict";
const short_number = (value, base, units) => {
  let power = 0;
  while (Math.abs(value) >= base && units.length - 1 > power) { value /= base; ++power; }
  return +value.toPrecision(4) + units[power];
};
const words_of_unit = [(v) => +v.toPrecision(5), (v) => short_number(v, 1000, ["", "k", "M", "G", "T"]),
  (v) => short_number(v, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]), (v) => +v.toPrecision(4) + " s",
  (v) => +(100 * v).toPrecision(4) + " %"];
(() => {
  const tip = document.getElementById("tip");
  for (const svg of document.querySelectorAll("svg.chart")) {
    const cursor = svg.querySelector(".cursor");
    const [width, height] = [488, 190];
    const points_of = (path) => path.getAttribute("d").split(/[ML]/).filter((pair) => pair)
      .map((pair) => pair.split(" ").map(Number));
    const marks = [...svg.querySelectorAll(".mark")].map((path) => [path.dataset.name, parseFloat(
      path.getAttribute("d").slice(1))]);
    svg.addEventListener("mousemove", (event) => {
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(cursor.getScreenCTM().inverse());
      const data = {};
      for (const key in svg.dataset) data[key] = +svg.dataset[key];
      const value_at = (y) => {
        const value = data.y1 - y / height * (data.y1 - data.y0);
        return words_of_unit[data.unit](data.log ? 10 ** value : value);
      };
      let best = null;
      const rows = [];
      for (const path of svg.querySelectorAll(".line")) {
        const points = points_of(path);
        if (!points.length) continue;
        const near = points.reduce((a, b) => Math.abs(a[0] - point.x) > Math.abs(b[0] - point.x) ? b : a);
        rows.push(path.dataset.name + "  " + value_at(near[1]));
        if (!best || Math.abs(best[0] - point.x) > Math.abs(near[0] - point.x)) best = near;
      }
      if (!best) return;
      for (const [name, x] of marks) if (4 > Math.abs(x - point.x)) rows.push(name);
      cursor.setAttribute("d", "M" + best[0] + " 0V" + height);
      cursor.style.display = "inline";
      const x = data.x0 + best[0] / width * (data.x1 - data.x0);
      tip.hidden = false;
      tip.textContent = svg.parentElement.dataset.x + " " + Math.round(x).toLocaleString() + "\n" + rows.join("\n");
      tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
      tip.style.top = (event.clientY + 18 + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 12 :
        event.clientY + 18) + "px";
    });
    svg.addEventListener("mouseleave", () => { tip.hidden = true; cursor.style.display = "none"; });
  }
})();
)js";

}  // namespace llmtrain
