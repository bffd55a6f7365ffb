import { Injectable, Module, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { LockAdminModule } from 'nestjs-distributed-lock/admin';

/** Lets operators in, who then see all keys. Your login has set `user` on the request before. */
@Injectable()
export class OpsGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const { user } = context.switchToHttp().getRequest<{ user?: { roles: string[] } }>();
    return user?.roles.includes('operator') ?? false;
  }
}

@Module({
  imports: [
    LockAdminModule.forRoot({
      guard: OpsGuard,
      path: 'ops/locks',
      canRelease: true,
      actor: (request: { user: { name: string } }) => request.user.name,
    }),
  ],
})
export class OpsModule {}
