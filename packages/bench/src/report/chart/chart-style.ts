/** The style of charts: the colours of the web page (`packages/web/src/page/style.css`), light or dark. */
export const chartStyle = `:root { --ground: #fff; --raised: #f3f4f7; --line: #c9ccd4; --text: #16181d; --dim: #545a66; --accent: #1f4fd8; --good: #0b6b3a; --bad: #a81616;
  --s0: #1f4fd8; --s1: #b45309; --s2: #a21caf; --s3: #0f766e; --s4: #7a8194; --s5: #a81616; --s6: #4d7c0f; --s7: #16181d; }
@media (prefers-color-scheme: dark) { :root { --ground: #14161b; --raised: #1e2128; --line: #3b404b; --text: #eceef2; --dim: #a9b0bd; --accent: #8fb0ff; --good: #7fd6a4; --bad: #ff9c9c;
  --s0: #8fb0ff; --s1: #f5a623; --s2: #e48bf0; --s3: #5eead4; --s4: #8089a0; --s5: #ff9c9c; --s6: #bef264; --s7: #eceef2; } }
svg text { font: 12px system-ui, sans-serif; fill: var(--dim); }
svg .title { fill: var(--text); }
svg .grid { stroke: var(--line); stroke-width: 1; fill: none; opacity: 0.6; }
svg .line { fill: none; stroke: currentColor; stroke-width: 2; } svg .dashed { stroke-dasharray: 5 3; }
svg .area { fill: currentColor; stroke: none; } svg .area.dashed { opacity: 0.6; }
svg .dot { fill: currentColor; fill-opacity: 0.6; }
${Array.from({ length: 8 }, (_, index) => `.s${index} { color: var(--s${index}); }`).join(' ')}
`
