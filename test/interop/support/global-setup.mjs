import { javaService } from '../../../verification/interop/index.mjs';

/** Says how the tests start Java, or that they are skipped; in continuous integration a skip is a failure. */
export default function globalSetup() {
  try {
    process.env.INTEROP_JAVA = JSON.stringify(javaService());
  } catch (error) {
    if (process.env.CI) throw error;
    process.stderr.write(`\nThe tests beside Java are skipped. ${error.message}\n\n`);
  }
}
