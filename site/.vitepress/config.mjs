import { defineConfig } from 'vitepress'
import { stagePages } from '../stage-pages.mjs'

/** The anchor of a heading, as GitHub makes it, so that links work in both places. */
const slugify = (heading) =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-')

/** Where the site is served below, if not at the root. */
const base = process.env.DOCS_BASE ?? '/'

export default defineConfig({
  title: 'cLLM',
  description:
    'An LLM inference server for GGUF models, whose scheduling can be chosen, measured and replaced.',
  srcDir: '.pages',
  outDir: 'dist',
  base,
  head: [['link', { rel: 'icon', href: `${base}icon.svg` }]],
  cleanUrls: false,
  ignoreDeadLinks: [/^https?:\/\/127\.0\.0\.1/],
  // Text such as `<agent>` is text.
  markdown: { html: false, anchor: { slugify } },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [
      { text: 'Start', link: '/start' },
      { text: 'Policies', link: '/scheduling' },
      { text: 'Plug-ins', link: '/writing-a-plugin' },
      { text: 'Production', link: '/deploying' },
      { text: 'Figures', link: '/figures' },
      { text: 'Packages', link: '/api/index.html', target: '_self' },
    ],
    sidebar: stagePages(),
  },
})
