import t from 'tap'
import { serve } from '../serve-process.js'
import { auditPage, findBrowser, startBrowser, watchPage } from './browser.js'

const executable = findBrowser()

t.test(
  'the page, used as a person would',
  { skip: executable === undefined && 'there is no Chromium on PATH' },
  async (t) => {
    const { url } = await serve(t, '--model', 'stories15m', '--slots', '2')
    const browser = await startBrowser(t, executable!)
    const page = await browser.newPage()
    const wrong = watchPage(page, url)

    await t.test('chat', async (t) => {
      await page.goto(url)
      t.equal(page.url(), `${url}/ui/`, 'a browser is sent to the page')
      await page.getByLabel('Message').fill('Once upon a time')
      await page.getByText('Settings').click()
      await page.getByLabel('Most tokens').fill('40')
      await page.getByLabel('Temperature').fill('0')
      await page.getByLabel('Message').press('Enter')
      await page.getByText(/TTFT .* tokens\/s .* 40 tokens .* cached/).waitFor()
      t.comment(await page.locator('.turns').innerText())
      t.same(await auditPage(page), [])
    })
    t.same(wrong, [])
  },
)
