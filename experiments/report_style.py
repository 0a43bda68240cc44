"""How a report looks, and the few lines of script that read a chart under the pointer."""

STYLE = """
:root{--paper:#fff;--ink:#1b1f24;--quiet:#59616b;--line:#e2e5e9;--soft:#f5f6f8;
--c0:#2257c4;--c1:#b84c00;--c2:#0c7a66;--c3:#a32c78;--c4:#7450c4;--c5:#846300;--c6:#b0201a;--c7:#4d5a66}
@media (prefers-color-scheme:dark){:root{--paper:#14171b;--ink:#e8eaed;--quiet:#a2abb6;--line:#2d333b;--soft:#1c2026;
--c0:#7eaaff;--c1:#ff9f5e;--c2:#4fd0b5;--c3:#f08fca;--c4:#b9a3ff;--c5:#e0b83c;--c6:#ff8a80;--c7:#aeb9c4}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;
font-variant-numeric:tabular-nums;-webkit-text-size-adjust:100%}
main{max-width:1180px;margin:0 auto;padding:40px 24px 72px}
header{margin-bottom:28px}
h1{font-size:30px;line-height:1.2;font-weight:650;letter-spacing:-.02em;margin:0;overflow-wrap:anywhere}
h2{font-size:19px;font-weight:650;letter-spacing:-.01em;margin:0 0 12px}
h3{font-size:15px;font-weight:600;margin:0}
header p,section p{color:var(--quiet);margin:4px 0 12px}
section,figure.wide,.several{margin:0 0 44px}
section>h3{margin:16px 0 6px}
.status{display:inline-block;font-size:13px;line-height:1;font-weight:600;letter-spacing:0;padding:5px 9px;border-radius:99px;
vertical-align:middle;border:1px solid currentColor;color:var(--c7);white-space:nowrap}
h1 .status{margin-left:12px}
.status.finished{color:var(--c2)}.status.at-work{color:var(--c0)}.status.diverged{color:var(--c6)}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(136px,1fr));gap:1px;
border:1px solid var(--line);border-radius:10px;overflow:hidden;margin:0 0 40px}
.facts div{box-shadow:0 0 0 1px var(--line);padding:14px 16px}
.facts dt{font-size:13px;color:var(--quiet)}
.facts dd{margin:0;font-size:13px;color:var(--quiet);line-height:1.35}
.facts dt+dd{font-size:23px;font-weight:600;letter-spacing:-.02em;color:var(--ink);line-height:1.4;white-space:nowrap}
figure{margin:0;min-width:0}
figcaption{display:flex;gap:4px 10px;align-items:baseline;flex-wrap:wrap;margin-bottom:12px}
figcaption span,.below{font-size:13px;color:var(--quiet)}
.wide h3{font-size:19px;font-weight:650}
.several{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(300px,100%),1fr));gap:36px 32px}
.frame{position:relative;padding:0 10px 26px 48px}
.plot{display:block;width:100%;height:180px;overflow:visible;touch-action:pan-y}
.wide .plot{height:380px}
.plot>svg{overflow:hidden}
.grid line{stroke:var(--line)}
.grid text{fill:var(--quiet);font-size:12px;text-anchor:middle}
.grid text.y,.grid text.end{text-anchor:end}
.plot path{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round;vector-effect:non-scaling-stroke}
.plot path.faint{stroke-width:1;opacity:.42}
.plot path.points{stroke-width:1.5;stroke-dasharray:4 4}
.plot circle{stroke:var(--paper);stroke-width:1.5}
.cursor{stroke:var(--quiet);visibility:hidden}
.readout{position:absolute;top:4px;right:14px;background:var(--paper);border:1px solid var(--line);border-radius:6px;padding:5px 9px;
font-size:12px;line-height:1.45;white-space:pre-line;visibility:hidden;pointer-events:none;max-width:75%}
.below{display:flex;justify-content:space-between;align-items:flex-start;gap:16px;padding:0 10px 0 48px}
.below span{margin-left:auto}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:2px 18px;margin:0;padding:0;font-size:13px;color:var(--quiet);min-width:0}
.legend li{overflow-wrap:anywhere}
.legend i,.key i{display:inline-block;width:18px;height:0;border-top:3px solid var(--c);vertical-align:middle;margin-right:7px}
.legend i.faint{opacity:.4}
.legend i.points{width:9px;height:9px;border:0;border-radius:9px;background:var(--c)}
.legend i.box,.key i.box{width:10px;height:10px;border:0;border-radius:2px;background:var(--c)}
.none{color:var(--quiet);font-size:14px}
.stack{display:block;width:100%;height:30px;border-radius:6px;background:var(--soft);margin:6px 0 10px}
.stack rect{fill:var(--c);stroke:var(--paper);stroke-width:1}
.bars{list-style:none;margin:14px 0;padding:0;font-size:14px}
.bars li{display:grid;grid-template-columns:minmax(0,300px) minmax(0,1fr);gap:0 16px;padding:4px 0;align-items:center}
.bars .name{overflow-wrap:anywhere}
.bar{display:grid;grid-template-columns:minmax(0,1fr) 84px;gap:10px;align-items:center;line-height:1.35}
.bar svg{width:100%;height:12px;border-radius:3px;background:var(--soft)}
.bar rect{fill:var(--c)}
.bar span{text-align:right;font-size:13px;color:var(--quiet)}
.scroll{overflow-x:auto;margin:10px 0;border:1px solid var(--line);border-radius:8px}
#figures.scroll{margin-bottom:40px}
table{border-collapse:collapse;width:100%;font-size:14px}
th,td{text-align:left;vertical-align:top;padding:8px 10px;font-weight:400}
.long{display:block;white-space:normal;min-width:220px;max-width:460px;overflow-wrap:anywhere}
thead th{font-size:13px;color:var(--quiet);background:var(--soft);white-space:pre}
tbody tr+tr>*{border-top:1px solid var(--line)}
td small{display:block;color:var(--quiet);font-size:12px}
tbody td,tbody th{white-space:nowrap}
details{margin:10px 0}
summary{cursor:pointer;color:var(--c0);font-size:14px;padding:6px 0;overflow-wrap:anywhere}
pre{margin:8px 0;padding:16px 18px;max-height:420px;overflow:auto;background:var(--soft);border-radius:8px;
font:13px/1.55 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre-wrap;overflow-wrap:anywhere}
:focus-visible{outline:2px solid var(--c0);outline-offset:2px}
@media (max-width:640px){main{padding:24px 16px 48px}h1{font-size:24px}.wide .plot{height:280px}
.facts{grid-template-columns:1fr 1fr}.bars li{grid-template-columns:minmax(0,1fr)}}
"""

# A colour for each run; past the eighth they come again with dashes. The boxes of memory take three of them.
for i in range(16):
    dashed = "stroke-dasharray:9 4;border-top-style:dashed" if i > 7 else ""
    STYLE += f".c{i}{{--c:var(--c{i % 8})}}.plot path.c{i},.legend i.c{i}{{stroke:var(--c);{dashed}}}.plot circle.c{i}{{fill:var(--c)}}"
STYLE += "".join(f".m{i}{{--c:var(--c{colour})}}" for i, colour in enumerate((7, 5, 4)))  # not those of the first runs

SCRIPT = """
for (const plot of document.querySelectorAll(".plot")) {
  const [last, low, high, log] = plot.dataset.scale.split(" ").map(Number)
  const readout = plot.parentNode.querySelector(".readout"), cursor = plot.querySelector(".cursor")
  const lines = [...plot.querySelectorAll("path")].map(path => [path.dataset.name,
    path.getAttribute("d").slice(1).split("L").map(point => point.split(" ").map(Number))])
  const value = down => log ? low * (high / low) ** (1 - down / 1e4) : high - (high - low) * down / 1e4
  const show = visible => readout.style.visibility = cursor.style.visibility = visible ? "visible" : "hidden"
  plot.addEventListener("pointermove", event => {
    const box = plot.getBoundingClientRect(), at = 1e4 * (event.clientX - box.left) / box.width
    const nearest = lines.map(([name, points]) => [name, points.reduce((a, b) => Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a)])
    const x = nearest.map(([, point]) => point[0]).reduce((a, b) => Math.abs(b - at) < Math.abs(a - at) ? b : a)
    const step = across => `step ${Math.round(last * across / 1e4).toLocaleString("en")}`
    cursor.setAttribute("x1", x / 100 + "%"); cursor.setAttribute("x2", x / 100 + "%")
    readout.textContent = [step(x), ...nearest.map(([name, [across, down]]) =>
      `${name} ${Number(value(down).toPrecision(4))}${Math.abs(across - x) > 50 ? ` at ${step(across)}` : ""}`)].join("\\n")
    readout.style.left = at > 5000 ? "58px" : "auto"; readout.style.right = at > 5000 ? "auto" : "14px"
    show(true)
  })
  plot.addEventListener("pointerleave", () => show(false))
}
"""
