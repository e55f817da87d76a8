import type { Test } from 'tap'
import { auditAll, tabTo, type Visit } from './browser.js'

/** A model is unloaded and loaded; one that no source has is told so. */
export async function models(t: Test, { page }: Visit): Promise<void> {
  await page.getByRole('link', { name: 'Models' }).click()
  await page.getByRole('button', { name: 'Unload stories15m' }).click()
  await page.getByText('stories15m is unloaded').waitFor()
  await page.getByRole('button', { name: 'Load stories15m', exact: true }).click()
  await page.getByText('stories15m is loaded').waitFor()
  const away = '**/models'
  await page.route(away, async (route) => await route.fulfill({ status: 503, body: 'away' }))
  await page.getByRole('alert').getByText('away').waitFor()
  await page.unroute(away)
  await page.getByRole('alert').waitFor({ state: 'detached' })
  await page.getByLabel('Model, of this server').fill('stories15m')
  await page.getByRole('button', { name: 'Compute' }).click()
  await page.getByText(/MB, of which .* are weights; .* free: it fits/).waitFor()
  await page.getByLabel('Tokens per slot').fill('16000000')
  await page.getByRole('button', { name: 'Compute' }).click()
  await page.getByText(/it does not fit/).waitFor()
  await page.getByLabel('Model, of this server').fill('no-model')
  await page.getByRole('button', { name: 'Compute' }).click()
  await page.getByText(/model 'no-model' not found/).waitFor()
  await page.getByLabel('A name of the catalog').fill('no-such-model')
  await page.getByRole('button', { name: 'Fetch' }).click()
  await page.getByText(/no-such-model/).waitFor()
  await auditAll(t, page)
}

/** All of it without a mouse. */
export async function keyboard(t: Test, { page, url }: Visit): Promise<void> {
  await page.goto(`${url}/ui/`)
  await page.reload()
  await tabTo(page, 'Scheduler')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Scheduler' }).waitFor()
  await page.reload()
  await tabTo(page, 'Chat')
  await page.keyboard.press('Enter')
  await tabTo(page, 'Message')
  await page.keyboard.type('Once upon')
  await page.keyboard.press('Enter')
  await page.getByText(/TTFT/).waitFor()
  t.match(await page.locator('.assistant').innerText(), /\w/)
}
