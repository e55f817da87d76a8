import { mkdir } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import type { Browser, Locator, Page } from 'playwright-core'
import type { Test } from 'tap'
import { findBrowser, type Visit, watchPage } from './browser.js'

/** A browser of this machine, if there is one. */
export const executable = findBrowser()
/** Why a test is skipped, or false. */
export const skip = executable === undefined && 'there is no Chromium on PATH'

/** Where the pictures of the docs are put, where the environment asks for them. */
const pictures = new URL('../../../../docs/images/', import.meta.url)

async function shoot(page: Page, name: string, once?: Locator, at?: Locator): Promise<void> {
  if (process.env['SCREENSHOTS'] === undefined) return
  await once?.waitFor({ timeout: 60_000 })
  // Its chart shows the last 20 seconds.
  if (name === 'scheduler') await page.waitForTimeout(20_000)
  await mkdir(pictures, { recursive: true })
  await page.evaluate('scrollTo(0, 0)')
  // Below the bar, which stays at the top.
  const box = await at?.boundingBox()
  if (box) await page.evaluate(`scrollTo(0, ${box.y - 60})`)
  await page.screenshot({ path: fileURLToPath(new URL(`${name}.png`, pictures)) })
}

/** Uses a page as a person does, in steps that tell each for itself whether all was well. */
export async function visit(t: Test, browser: Browser, url: string) {
  const context = await browser.newContext({
    colorScheme: 'light',
    acceptDownloads: true,
    viewport: { width: 1100, height: 760 },
  })
  const page = await context.newPage()
  page.setDefaultTimeout(60_000)
  const wrong = watchPage(page, url)
  const all: Visit = { page, url, shoot: async (...shot) => await shoot(page, ...shot) }
  return async (name: string, run: (t: Test, visit: Visit) => Promise<void>) => {
    await t.test(name, async (t) => {
      await run(t, all)
      t.same(wrong.splice(0), [], 'it asked nobody else, and nothing failed')
    })
  }
}
